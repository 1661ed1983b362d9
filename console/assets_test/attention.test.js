import test from 'node:test';
import assert from 'node:assert/strict';
import { attention, attentionOf, calm, quiet } from '../assets/js/attention.js';

const plain = (s) => s.replaceAll('\u202f', ' ');
const fill = (values) => Object.fromEntries(Object.entries({ t: 1, ...values }).map(([k, v]) => [k, new Array(10).fill(v)]));

// A store in which the unit checkout has had these values for ten seconds.
function store(points, { unit = {}, snapshot = {}, limits = {} } = {}) {
  const u = { name: 'checkout', kind: 'route', stuck: 0, requests: 1, calls: 1, ...unit };
  return {
    interval: 1, total: fill(points), snapshot: { units: [u], ...snapshot },
    series: () => fill(points), limits: new Map(Object.entries(limits).map(([k, v]) => [k, fill(v)])),
  };
}
const found = (...args) => attention(store(...args)).map((f) => `${f.level} ${f.subject}: ${plain(f.text)}`);

test('nothing is wrong', () => {
  assert.deepEqual(found({ requests: 100, hits: 90, calls: 10, failed: 0, refused: 0 }), []);
  assert.deepEqual(attention({ snapshot: null }), []);
});

test('a source that fails, by what clients get instead', () => {
  assert.deepEqual(found({ requests: 100, calls: 100, failed: 97, stale_on_error: 50 }), ['bad checkout: 97.0 % of calls of the source fail; stale responses are served instead, 50/s.']);
  assert.deepEqual(found({ requests: 100, calls: 100, failed: 100 }), ['bad checkout: all calls of the source fail; there is no stale response to serve instead.']);
  assert.deepEqual(found({ requests: 100, calls: 100, failed: 100, http_2xx: 60, http_5xx: 40, stale_on_error: 60 }),
    ['bad checkout: all calls of the source fail; clients get errors, 40/s, which is 40 % of all responses, and stale responses are served instead, 60/s.']);
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

test('how long it has failed', () => {
  const t = new Array(100).fill(0).map((_, i) => 1000 + i);
  const series = { t, requests: t.map(() => 10), calls: t.map(() => 10), failed: t.map((_, i) => (i < 40 ? 0 : 10)) };
  const one = attention({ interval: 1, total: series, limits: new Map(), snapshot: { units: [{ name: 'a', kind: 'route' }] }, series: () => series });
  assert.match(plain(one[0].text), /^all calls of the source fail, for 59 s;/);
});

// One outage of a service behind three routes: it fails their calls, its servers are ejected,
// the queue is full, and requests are refused.
test('C12: one incident is one finding', () => {
  const units = ['pages', 'search', 'cart'].map((name) => ({ name, kind: 'route', upstream: 'shop', limit: 'shop', stuck: 0, requests: 1, calls: 1, responses: {} }));
  const bad = { requests: 100, calls: 50, failed: 50, refused: 30, stale_on_error: 5, http_5xx: 80, http_2xx: 5 };
  const s = { interval: 1, total: fill(bad), series: () => fill(bad), limits: new Map([['shop', fill({ queued: 9, limit: 1 })]]), snapshot: {
    units, limits: [{ name: 'shop', limit: 1, queued: 9, held_ns: 1e7, overloaded: true }],
    servers: [{ upstream: 'shop', url: 'http://10.0.0.1', ejected: true, healthy: true }, { upstream: 'shop', url: 'http://10.0.0.2', ejected: false, healthy: false }] } };
  const all = attention(s);
  assert.equal(all.length, 1, JSON.stringify(all));
  assert.equal(all[0].level, 'bad');
  assert.match(all[0].text, /^all calls of the source fail, and 2 of 2 servers are ejected or fail their checks; clients get errors/);
  assert.match(all[0].next, /^Check the servers, such as http:\/\/10\.0\.0\.1,/);
  assert.deepEqual(all[0].units, ['pages', 'search', 'cart']);
  for (const u of units) assert.equal(attentionOf(all, u)[0].badge, 'source failing');
  // A second upstream is down as well: still one incident, which names both.
  s.snapshot.units.push({ name: 'stock', kind: 'route', upstream: 'stock', stuck: 0, requests: 1, calls: 1, responses: {} });
  const two = attention(s);
  assert.equal(two.length, 1);
  assert.match(two[0].text, /^2 are down at once, shop and stock; clients get errors/);
});

test('C12: a client that exceeds its rate is a note, and our own refusal is not', () => {
  const over = attention(store({ requests: 100, refused_client: 40, hits: 60, http_2xx: 60, http_4xx: 40 }, { unit: { responses: {} } }));
  assert.deepEqual(over.map((f) => `${f.level} ${f.badge}`), ['note clients over rate']);
  assert.deepEqual(found({ requests: 100, refused: 2 }), ['warn checkout: 2.0 % of requests are refused with 503 because the limit is reached, 2/s.']);
  assert.deepEqual(found({ requests: 100, refused: 30 }), ['bad checkout: 30 % of requests are refused with 503 because the limit is reached, 30/s.']);
});

test('errors that nothing else explains', () => {
  assert.deepEqual(found({ requests: 100, http_2xx: 90, http_5xx: 10 }, { unit: { responses: {} } }), ['bad Clients: 10 % of the responses are errors, 10/s.']);
});

test('a unit without findings is healthy or idle', () => {
  const badge = (r, u = {}) => calm(u, { requests: 0, calls: 0, refused: 0, ...r }).badge;
  assert.equal(badge({}), 'idle');
  assert.equal(badge({}, { flights: 1 }), 'healthy');
  assert.equal(badge({ requests: 1 }), 'healthy');
});

test('stuck calls', () => {
  assert.deepEqual(found({ requests: 100 }, { unit: { stuck: 1 } }), ['bad checkout: 1 call of the source is stuck: abandoned long ago, but still running.']);
});

test('a paused queue says how to resume it, and is not without a worker', () => {
  const queue = (name, paused, waiting = 3) => ({ name, waiting, running: 0, dead: 0, age_ns: 3e11, paused });
  const s = (...queues) => store({}, { snapshot: { queues } });
  const [one, ...rest] = attention(s(queue('mail', true, 1)));
  assert.deepEqual(rest, []);
  assert.equal(one.level, 'warn');
  assert.equal(one.text, 'mail is paused: none of its jobs starts, and 1 job is waiting.');
  assert.equal(one.next, 'Once the reason for the pause is gone: “weir jobs resume mail”.');
  assert.equal(one.page, '#/jobs');
  assert.deepEqual(found({}, { snapshot: { queues: [queue('a', true), queue('b', true), queue('c', true), queue('d', true), queue('e', false)] } }),
    ['warn Jobs: a, b, c and 1 more queue are paused: none of their jobs starts, and 12 jobs are waiting.', 'warn Jobs: 3 jobs of e waiting, the oldest for 5 min, and none running.']);
});

test('a queue that stands, and one that comes and goes', () => {
  const l = { name: 'db', kind: 'fixed', limit: 10, queued: 5, held_ns: 1e8 };
  assert.deepEqual(found({}, { snapshot: { limits: [l] }, limits: { db: { queued: 5 } } }), ['warn db: a queue of 5 calls is not draining, which means a wait of about 50 ms.']);
  assert.deepEqual(found({}, { snapshot: { limits: [{ ...l, queued: 0 }] }, limits: { db: { queued: 5 } } }), []);
  assert.deepEqual(found({}, { snapshot: { limits: [{ ...l, overloaded: true }] }, limits: { db: { queued: 0 } } }), ['warn db: the source is slower than it should be, so the limit is kept low.']);
});

test('servers, the fleet, the process, jobs', () => {
  const server = (url, ejected, healthy = true) => ({ upstream: 'shop', url, ejected, healthy });
  assert.deepEqual(found({}, { snapshot: { servers: [server('a', true), server('b', false)] } }), ['warn shop: 1 of 2 servers is ejected or fails its checks; the others take its calls.']);
  assert.deepEqual(found({}, { snapshot: { servers: [server('a', true), server('b', false, false)] } }), ['bad shop: all 2 servers are ejected or fail their checks; there is no stale response to serve instead.']);
  assert.deepEqual(found({}, { snapshot: { servers: [server('a', true)] } }), ['bad shop: its only server is ejected or fails its checks; there is no stale response to serve instead.']);
  assert.deepEqual(found({}, { snapshot: { tier: { open: true, pending: 2 } } }), ['warn Fleet: the shared store does not respond: this instance works independently until it does. 2 invalidations will be sent again until it has them.']);
  assert.deepEqual(found({}, { snapshot: { process: { state: 'draining' } } }), ['warn Process: /readyz answers 503: draining.']);
  const queue = (name, dead) => ({ name, waiting: 3, running: 0, dead, age_ns: 3e11 });
  assert.deepEqual(found({}, { snapshot: { queues: [queue('mail', 1), queue('thumbs', 4)] } }),
    ['warn Jobs: 6 jobs of mail and thumbs waiting, the oldest for 5 min, and none running.', 'note Jobs: 5 jobs of mail and thumbs are dead: out of attempts.']);
});

test('H23: jobs that no route has', () => {
  const queue = (orphan) => found({}, { snapshot: { queues: [{ name: 'old', waiting: 3, running: 0, dead: 2, age_ns: 3e11, orphan }] } });
  const none = { queued: 0, started: 0, dead: 0, finished: 0, setting: 'async: {formerly: [old]}' };
  const rest = 'they do not run, and clients get 404 for them.';
  assert.deepEqual(queue({ ...none, queued: 3, started: 1, dead: 2, finished: 4 }), [`warn Jobs: no route serves the jobs of old (3 queued, 1 started, 2 dead, 4 finished): ${rest}`]);
  assert.deepEqual(queue({ ...none, finished: 1 }), [`note Jobs: no route serves the jobs of old (1 finished): ${rest}`]);
});

test('the worst comes first, and each that is bad has a next step', () => {
  const all = attention(store({ requests: 100, calls: 100, failed: 97 }, { snapshot: { tier: { open: true }, queues: [{ name: 'mail', waiting: 0, dead: 1 }] } }));
  assert.deepEqual(all.map((f) => f.level), ['bad', 'warn', 'note']);
  for (const f of all) assert.ok(f.next, f.key);
  assert.deepEqual(attentionOf(all, { name: 'other' }), []);
});

test('quiet is a program that nobody has asked', () => {
  assert.equal(quiet(store({})), false);
  assert.equal(quiet(store({}, { unit: { requests: 0, calls: 0 } })), true);
});
