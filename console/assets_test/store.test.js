import test from 'node:test';
import assert from 'node:assert/strict';
import { Store, push } from '../assets/js/store.js';
import { parse, link } from '../assets/js/router.js';

const at = (s) => new Date(s * 1000).toISOString();
const snapshot = (s, units = []) => ({ at: at(s), units });
const hello = (seconds) => ({
  interval_ns: 1e9, history_ns: seconds * 1e9, snapshot: snapshot(3),
  total: { t: [1, 2, 3], requests: [5, 6, 7] }, units: { a: { t: [1, 2, 3], requests: [5, 6, 7] } }, limits: {},
});

test('series are trimmed to the history', () => {
  const s = new Store();
  s.open(hello(4));
  for (let t = 4; t < 1000; t++) s.tick({ snapshot: snapshot(t), total: { t, requests: t }, units: { a: { t, requests: t } }, limits: {} });
  for (const series of [s.total, s.series('a')]) {
    assert.deepEqual(series.t, [996, 997, 998, 999]);
    assert.deepEqual(series.requests, [996, 997, 998, 999]);
  }
  assert.equal(s.recent.length, 11);
  assert.equal(s.end(), 999);
  assert.equal(s.before().seconds, 10);
});

test('the clock set back makes no time run back', () => {
  const s = new Store();
  s.open({ ...hello(600), units: { a: { t: [2, 3], requests: [6, 7] } } });
  s.tick({ snapshot: snapshot(-3600), total: { t: -3600, requests: 8 }, units: { a: { t: -3600, requests: 8 } }, limits: {} });
  assert.deepEqual(s.total, { t: [-3603, -3602, -3601, -3600], requests: [5, 6, 7, 8] });
  assert.deepEqual(s.series('a').t, [-3602, -3601, -3600]);
  assert.equal(s.before().seconds, 0);
  s.tick({ snapshot: snapshot(-3599), total: { t: -3599 }, units: {}, limits: {} });
  assert.deepEqual(s.total.t, [-3603, -3602, -3601, -3600, -3599]);
  assert.equal(s.before().seconds, 1);
});

test('units come and go', () => {
  const s = new Store();
  s.open(hello(600));
  s.tick({ snapshot: snapshot(4), total: { t: 4 }, units: { b: { t: 4, requests: 1 } }, limits: { l: { t: 4, limit: 2 } } });
  assert.deepEqual([...s.units.keys()], ['b']);
  assert.deepEqual(s.limits.get('l'), { t: [4], limit: [2] });
  assert.deepEqual(s.series('a'), { t: [] });
});

test('columns stay of equal length, whatever a point has', () => {
  const s = { t: [1], a: [1] };
  push(s, { t: 2, b: 5 }, 10);
  push(s, { t: 3, a: 3, b: null }, 10);
  assert.deepEqual(s, { t: [1, 2, 3], a: [1, null, 3], b: [null, 5, null] });
});

test('a new hello takes the place of all before', () => {
  const s = new Store();
  s.open(hello(600));
  s.open({ ...hello(2), units: {} });
  assert.deepEqual(s.total.t, [2, 3]);
  assert.equal(s.units.size, 0);
  assert.equal(s.recent.length, 1);
});

test('an empty hello is no trouble', () => {
  const s = new Store();
  s.open({ snapshot: { at: at(7), units: null }, total: null, units: null, limits: null });
  s.tick({ snapshot: { at: at(8), units: null }, total: null });
  assert.equal(s.unit('a'), undefined);
});

test('addresses hold any name', () => {
  for (const name of ['a', 'a/b', 'ä ?#%&', '..', '%2F', 'x'.repeat(300)]) {
    assert.deepEqual(parse(link('unit', name)), { page: 'unit', args: [name], query: {} }, name);
  }
  assert.deepEqual(parse(link('overview')), { page: 'overview', args: [], query: {} });
  assert.deepEqual(parse(''), { page: 'overview', args: [], query: {} });
  assert.deepEqual(parse('#/jobs?state=dead,failed&queue=a%2Fb'), { page: 'jobs', args: [], query: { state: 'dead,failed', queue: 'a/b' } });
  assert.deepEqual(parse(link('jobs', 'mail', '3f9a')), { page: 'jobs', args: ['mail', '3f9a'], query: {} });
  assert.deepEqual(parse('#/unit/%'), { page: 'unit', args: ['%'], query: {} });
});
