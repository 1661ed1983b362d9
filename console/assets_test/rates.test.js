import test from 'node:test';
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import * as r from '../assets/js/rates.js';

test('means leave out what is not there', () => {
  assert.equal(r.mean([100, 1, null, 3], 3), 2);
  assert.equal(r.mean([4], 5), 4);
  assert.ok(Number.isNaN(r.mean([null, null], 2)));
  assert.ok(Number.isNaN(r.mean(undefined, 2)));
});

test('the last value is one of the last points', () => {
  assert.equal(r.last([1, 2, null]), 2);
  assert.ok(Number.isNaN(r.last([1, null, null], 2)));
  assert.ok(Number.isNaN(r.last(undefined)));
});

test('what a unit does now', () => {
  const now = r.now({ t: [1], requests: [100], hits: [60], joined: [20], calls: [20], refreshes: [2], failed: [10], refused: [3], stale_on_error: [1] }, 10);
  assert.equal(now.avoided, 80);
  assert.equal(now.failing, 0.5);
  assert.equal(now.refusing, 0.03);
  assert.equal(now.of, 'call');
});

const parts = (now) => Object.values(now.kinds).reduce((a, b) => a + b, 0);

test('C11: the parts of the savings add up to all requests, and the saved ones to the headline', () => {
  const route = r.now({ t: [1], requests: [120], hits: [50], validated: [10], joined: [5], calls: [60], missed: [30], missed_errors: [8], unanswered: [4], refused: [6], refused_budget: [2], refused_client: [7], refused_client_budget: [3], too_large: [0], gone: [8], http_2xx: [87] }, 10);
  assert.equal(route.kinds.own, 22, 'an answer that failed is no own call');
  assert.equal(route.kinds.errors, 12);
  assert.equal(parts(route), 112, 'all but those whose clients had left');
  assert.equal(route.ended, 112);
  assert.equal(route.avoided, 55, 'a validated response needed a call');
  assert.equal(route.saved, 55 / 112);
  const guard = r.now({ t: [1], requests: [100], hits: [70], joined: [10], calls: [15], failed: [6], stale_on_error: [2], refused: [5], missed: [15], missed_errors: [4] }, 10);
  assert.equal(guard.kinds.own, 11);
  assert.equal(guard.kinds.errors, 4, 'a failed load with a stale value is no error');
  assert.equal(parts(guard), 100);
  const idle = r.now({ t: [1], requests: [3], hits: [0], http_2xx: [1] }, 10);
  assert.equal(idle.kinds.own, 0, 'requests of a route that are still in progress are no own calls');
});

test('C11: classes have the words of gRPC where there are only its methods, and Guards', () => {
  const labels = (...kinds) => r.classesOf(kinds.map((kind) => ({ kind }))).filter((c) => !c.rare).map((c) => c.label).join();
  assert.equal(labels('method', 'guard'), 'OK,Client errors,Server errors');
  assert.equal(labels('method', 'route'), '2xx,3xx,4xx,5xx,Broken');
  assert.equal(labels('guard'), '2xx,3xx,4xx,5xx,Broken');
});

test('C11: the classes add up to the responses, and errors are 5xx and broken', () => {
  const now = r.now({ t: [1], http_1xx: [1], http_2xx: [50], http_3xx: [20], http_4xx: [9], http_5xx: [15], http_broken: [5], http_left: [7] }, 10);
  assert.equal(now.responses, 100);
  assert.equal(now.errors, 20);
  assert.equal(now.erring, 0.2);
  assert.equal(now.left, 7, 'which is not in the responses');
});

test('a share of nothing is none', () => {
  assert.ok(Number.isNaN(r.share(0, 0)));
  assert.equal(r.share(3, 2), 1);
  assert.ok(Number.isNaN(r.now({ t: [] }, 10).saved));
});

test('requests are shown where they are timed, else calls', () => {
  const series = { request_p50: [0.1], request_p99: [0.2], call_p50: [1], call_p99: [2] };
  assert.equal(r.timed([{ kind: 'guard' }, { kind: 'route' }]), 'request');
  assert.equal(r.timed([{ kind: 'guard' }]), 'call');
  assert.deepEqual(r.quickness(series, 'request'), { of: 'request', p50: 0.1, p99: 0.2 });
  assert.deepEqual(r.quickness(series, 'call'), { of: 'call', p50: 1, p99: 2 });
  assert.ok(Number.isNaN(r.quickness({ call_p99: [2] }, 'request').p99), 'a route without requests has no quantiles, not even those of its calls');
});

test('now is ten seconds, of which there are two points at least', () => {
  assert.deepEqual([1, 2, 30, undefined].map((interval) => r.pointsOf({ interval })), [10, 5, 2, 10]);
});

test('a counter that began anew has no negative rate', () => {
  assert.deepEqual(r.difference({ a: 10, b: 1, name: 'x' }, { a: 4, b: 5 }, 2), { a: 3, b: 0 });
  assert.deepEqual(r.difference({ a: 10 }, undefined, 5), { a: 2 });
  assert.deepEqual(r.difference(undefined, undefined, 5), {});
});

test('avoided since the start', () => {
  assert.equal(r.avoidedSince({ hits: 1, stale: 2, negative: 3, failures: 4, joined: 5, validated: 6, fleet: 7 }), 22, 'validated requests needed a call');
});

test('C11: weir top shows the same numbers', () => {
  const { cases } = JSON.parse(readFileSync(new URL('./testdata/rates.json', import.meta.url), 'utf8'));
  const known = (x) => (Number.isFinite(x) ? x : null);
  for (const c of cases) {
    const n = r.now(c.series, 10, r.timed([{ kind: c.kind }]));
    assert.deepEqual({ responses: n.responses, errors: known(n.erring), requests: n.requests, saved: known(n.saved), calls: n.calls, failed: n.failed,
      refused: n.refused, over_rate: n.refusedClient, stale: n.staleOnError, p99: known(n.p99) }, c.want, c.name);
    if (c.refused_by) assert.deepEqual(Object.fromEntries(r.refusals.filter((k) => n.kinds[k.name] > 0).map((k) => [k.key, n.kinds[k.name]])), c.refused_by, c.name);
  }
});

test('C11: costs add up, and are money only if all prices are in one currency', () => {
  const { cases } = JSON.parse(readFileSync(new URL('testdata/costs.json', import.meta.url)));
  for (const c of cases) {
    const got = r.costSince(c.units);
    if (c.want === null) {
      assert.equal(got, null, c.name);
      continue;
    }
    for (const name of ['spent', 'avoided', 'refused', 'currency']) assert.equal(got[name], c.want[name], `${c.name}: ${name}`);
    for (const name of ['spent', 'avoided', 'refused']) {
      const want = c.want.money ? c.want.money[name] : NaN;
      assert.ok(Number.isNaN(want) ? Number.isNaN(got.money[name]) : Math.abs(got.money[name] - want) < 1e-9, `${c.name}: money ${name} is ${got.money[name]}`);
    }
  }
  const now = r.now({ t: [1], requests: [1], cost_spent: [30], cost_avoided: [60], cost_refused: [5] }, 10);
  assert.deepEqual([now.costSpent, now.costAvoided, now.costRefused], [30, 60, 5]);
});
