import test from 'node:test';
import assert from 'node:assert/strict';
import { poll } from '../assets/js/poll.js';

const settled = () => new Promise((resolve) => { setImmediate(resolve); });

test('a first request is sent, paused or not; no repeats follow then', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  globalThis.document = { hidden: false };
  let asked = 0;
  let paused = true;
  const p = poll(1000, async () => { asked++; }, () => paused);
  const after = async (ms) => {
    t.mock.timers.tick(ms);
    await settled();
    return asked;
  };
  assert.equal(await after(0), 1, 'a page that is opened');
  assert.equal(await after(1000), 1, 'a page that is paused');
  p.now();
  assert.equal(await after(0), 2, 'a button that is pressed');
  paused = false;
  assert.equal(await after(1000), 3, 'a page that goes on');
  p.stop();
  assert.equal(await after(5000), 3, 'a page that is left');
});
