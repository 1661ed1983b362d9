import test from 'node:test';
import assert from 'node:assert/strict';
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
  const now = r.now({ t: [1], requests: [100], hits: [70], joined: [20], calls: [10], refreshes: [2], failed: [5], refused: [3], stale_on_error: [1] }, 10);
  assert.equal(now.avoided, 90);
  assert.equal(now.saved, 0.9);
  assert.equal(now.failing, 0.5);
  assert.equal(now.refusing, 0.03);
  assert.equal(now.of, 'call');
});

test('what was validated is an answer of its own, and no call that was avoided', () => {
  const now = r.now({ t: [1], requests: [100], hits: [50], validated: [40], calls: [60], refreshes: [10] }, 10);
  assert.equal(now.avoided, 50);
  assert.equal(now.kinds.validated + r.own(now.calls, now.refreshes, now.kinds.validated) + now.avoided, 100);
  assert.equal(r.own(1, 0, 5), 0, 'several share a call that validates');
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
