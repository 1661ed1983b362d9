import test from 'node:test';
import assert from 'node:assert/strict';
import { attentionOf, calm, quiet } from '../assets/js/attention.js';

test('the incidents of a unit', () => {
  const all = [{ key: 'a', units: ['pages', 'cart'] }, { key: 'b', units: ['cart'] }, { key: 'c' }];
  assert.deepEqual(attentionOf(all, { name: 'cart' }).map((f) => f.key), ['a', 'b']);
  assert.deepEqual(attentionOf(all, { name: 'other' }), []);
});

test('a unit without incidents is healthy or idle', () => {
  const badge = (r, u = {}) => calm(u, { requests: 0, calls: 0, refused: 0, ...r }).badge;
  assert.equal(badge({}), 'idle');
  assert.equal(badge({}, { flights: 1 }), 'healthy');
  assert.equal(badge({ requests: 1 }), 'healthy');
});

test('quiet is a program without any request', () => {
  const store = (u) => ({ snapshot: { units: [u] }, total: { t: [] } });
  assert.equal(quiet(store({ requests: 1, calls: 1 })), false);
  assert.equal(quiet(store({ requests: 0, calls: 0 })), true);
});
