import test from 'node:test';
import assert from 'node:assert/strict';
import { attention, attentionOf, calm, quiet } from '../assets/js/attention.js';

const plain = (s) => s.replaceAll('\u202f', ' ');
const fill = (values) => Object.fromEntries(Object.entries({ t: 1, ...values }).map(([k, v]) => [k, new Array(10).fill(v)]));

// A store in which the unit checkout has had these values for ten seconds.
function store(points, { unit = {}, snapshot = {}, limits = {} } = {}) {
  const u = { name: 'checkout', kind: 'route', stuck: 0, requests: 1, calls: 1, ...unit };
  return {
    interval: 1, total: { t: [] }, snapshot: { units: [u], ...snapshot },
    series: () => fill(points), limits: new Map(Object.entries(limits).map(([k, v]) => [k, fill(v)])),
  };
}
const found = (...args) => attention(store(...args)).map((f) => `${f.level} ${f.unit || f.subject}: ${plain(f.text)}`);

test('all is well', () => {
  assert.deepEqual(found({ requests: 100, hits: 90, calls: 10, failed: 0, refused: 0 }), []);
  assert.deepEqual(attention({ snapshot: null }), []);
});

test('a source that fails, by what is served instead', () => {
  assert.deepEqual(found({ requests: 100, calls: 100, failed: 97, stale_on_error: 50 }), ['bad checkout: 97.0 % of calls of the source fail; stale responses are served instead, 50/s.']);
  assert.deepEqual(found({ requests: 100, calls: 100, failed: 100 }), ['bad checkout: all calls of the source fail; there is no stale response to serve instead.']);
  assert.deepEqual(found({ requests: 100, calls: 100, failed: 10 }), ['warn checkout: 10 % of calls of the source fail; there is no stale response to serve instead.']);
  assert.deepEqual(found({ requests: 100, calls: 1, failed: 0.1 }), [], 'one failure is no trend');
  assert.deepEqual(found({ requests: 100, calls: 10, stale_on_error: 2 }), ['warn checkout: stale responses are served instead of errors or long waits, 2/s.']);
});

test('a source that hardly anybody asks is judged by the last calls', () => {
  const rare = (failed, calls) => attention({ interval: 1, total: { t: [] }, limits: new Map(), snapshot: { units: [{ name: 'night', kind: 'route' }] },
    series: () => ({ t: new Array(100).fill(1), requests: calls, calls, failed }) }).map((f) => `${f.level} ${plain(f.text)}`);
  const at = (...seconds) => new Array(100).fill(0).map((_, i) => (seconds.includes(99 - i) ? 1 : 0));
  assert.deepEqual(rare(at(5, 20, 40), at(5, 20, 40)), ['bad all calls of the source failed in the last 60 s; there is no stale response to serve instead.']);
  assert.deepEqual(rare(at(20, 40), at(1, 2, 3, 20, 40)), [], 'two of five, and the last ones succeeded');
  assert.deepEqual(rare(at(...new Array(30).keys()).map((v, i) => (i < 85 ? v : 0)), at(...new Array(30).keys())), [], 'it recovered 15 s ago');
  assert.deepEqual(rare(at(11, 13, 15, 17, 19), at(1, 3, 11, 13, 15, 17, 19)), ['bad 71 % of calls of the source failed in the last 20 s; there is no stale response to serve instead.']);
  assert.deepEqual(rare(at(70, 80), at(2, 70, 80)), [], 'longer ago than that');
  assert.deepEqual(rare(at(5), at(5)), [], 'one failure is no trend');
});

test('a unit of which nothing is found is well, idle, or has a call that failed', () => {
  const badge = (r, u = {}) => calm(u, { requests: 0, calls: 0, refused: 0, ...r }).badge;
  assert.equal(badge({}), 'idle');
  assert.equal(badge({}, { flights: 1 }), 'well');
  assert.equal(badge({ requests: 1 }), 'well');
  assert.equal(badge({ refused: 1 }), 'well');
  assert.equal(badge({ requests: 1, calls: 1, failing: 1 }), 'a call failed');
});

test('refusals, stuck calls', () => {
  assert.deepEqual(found({ requests: 100, refused: 2 }), ['warn checkout: 2.0 % of requests are refused, 2/s.']);
  assert.deepEqual(found({ requests: 100, refused: 30 }), ['bad checkout: 30 % of requests are refused, 30/s.']);
  assert.deepEqual(found({ requests: 100 }, { unit: { stuck: 1 } }), ['bad checkout: 1 call of the source is stuck: abandoned long ago, but still running.']);
});

test('a queue that stands, and one that comes and goes', () => {
  const l = { name: 'db', kind: 'fixed', limit: 10, queued: 5, held_ns: 1e8 };
  assert.deepEqual(found({}, { snapshot: { limits: [l] }, limits: { db: { queued: 5 } } }), ['warn db: a queue of 5 calls is not draining, which means a wait of about 50 ms.']);
  assert.deepEqual(found({}, { snapshot: { limits: [{ ...l, queued: 0 }] }, limits: { db: { queued: 5 } } }), []);
  assert.deepEqual(found({}, { snapshot: { limits: [{ ...l, overloaded: true }] }, limits: { db: { queued: 0 } } }), ['warn db: the source is slower than it should be, so the limit is kept low.']);
});

test('servers, the fleet, the process, jobs', () => {
  const server = (url, ejected, healthy = true) => ({ upstream: 'shop', url, ejected, healthy });
  assert.deepEqual(found({}, { snapshot: { servers: [server('a', true), server('b', false)] } }), ['warn shop: 1 of 2 servers is ejected or fails its checks.']);
  assert.deepEqual(found({}, { snapshot: { servers: [server('a', true), server('b', false, false)] } }), ['bad shop: no server of this upstream is healthy: all 2 are ejected or fail their checks.']);
  assert.deepEqual(found({}, { snapshot: { servers: [server('a', true)] } }), ['bad shop: no server of this upstream is healthy: its only server is ejected or fails its checks.']);
  assert.deepEqual(found({}, { snapshot: { tier: { open: true } } }), ['warn Fleet: the shared store does not respond: this instance works independently until it does.']);
  assert.deepEqual(found({}, { snapshot: { process: { state: 'draining' } } }), ['warn Process: not ready: draining.']);
  assert.deepEqual(found({}, { snapshot: { queues: [{ name: 'mail', waiting: 3, running: 0, dead: 1, age_ns: 3e11 }] } }),
    ['warn Jobs: 3 jobs of mail waiting, the oldest for 5 min, and none running.', 'note Jobs: 1 job of mail is dead: out of attempts, and kept for you to inspect.']);
});

test('H23: jobs that no route has', () => {
  const queue = (orphan) => found({}, { snapshot: { queues: [{ name: 'old', waiting: 3, running: 0, dead: 2, age_ns: 3e11, orphan }] } });
  const none = { queued: 0, started: 0, dead: 0, finished: 0, setting: 'async: {formerly: [old]}' };
  const rest = 'they do not run, and clients get 404 for them. A route with async: {formerly: [old]} takes them over.';
  assert.deepEqual(queue({ ...none, queued: 3, started: 1, dead: 2, finished: 4 }), [`warn Jobs: no route serves the jobs of old (3 queued, 1 started, 2 dead, 4 finished): ${rest}`]);
  assert.deepEqual(queue({ ...none, finished: 1 }), [`note Jobs: no route serves the jobs of old (1 finished): ${rest}`]);
});

test('the worst comes first, and a unit has the findings of its limit and its servers', () => {
  const all = attention(store({ requests: 100, calls: 100, failed: 97 }, {
    unit: { limit: 'db' }, snapshot: { tier: { open: true }, limits: [{ name: 'db', limit: 1, queued: 2 }] }, limits: { db: { queued: 2 } } }));
  assert.deepEqual(all.map((f) => f.level), ['bad', 'warn', 'warn']);
  assert.deepEqual(attentionOf(all, { name: 'checkout', limit: 'db' }).map((f) => f.badge), ['source failing', 'standing queue']);
  assert.deepEqual(attentionOf(all, { name: 'other' }), []);
  const out = attention(store({}, { snapshot: { servers: [{ upstream: 'db', url: 'a', ejected: true, healthy: true }] } }));
  assert.deepEqual(attentionOf(out, { name: 'checkout', limit: 'db' }).map((f) => f.badge), ['servers out']);
});

test('quiet is a program that nobody has asked', () => {
  assert.equal(quiet(store({})), false);
  assert.equal(quiet(store({}, { unit: { requests: 0, calls: 0 } })), true);
});
