import test from 'node:test';
import assert from 'node:assert/strict';
import { poll } from '../assets/js/poll.js';

const settled = () => new Promise((resolve) => { setImmediate(resolve); });

// mockTimeouts replaces setTimeout and clearTimeout until the test ends, and returns a
// function that lets time pass. The mocks of node:test differ between node 18, which
// Debian 12 has, and newer versions.
function mockTimeouts(t) {
  const real = { setTimeout, clearTimeout };
  const waiting = new Map();
  let now = 0;
  let last = 0;
  globalThis.setTimeout = (f, ms = 0) => {
    waiting.set(++last, { f, at: now + ms });
    return last;
  };
  globalThis.clearTimeout = (id) => waiting.delete(id);
  t.after(() => Object.assign(globalThis, real));
  return (ms) => {
    now += ms;
    for (const [id, timer] of [...waiting]) {
      if (timer.at <= now && waiting.delete(id)) timer.f();
    }
  };
}

test('a first request is sent, paused or not; no repeats follow then', async (t) => {
  const pass = mockTimeouts(t);
  globalThis.document = { hidden: false };
  let asked = 0;
  let paused = true;
  const p = poll(1000, async () => { asked++; }, () => paused);
  const after = async (ms) => {
    pass(ms);
    await settled();
    return asked;
  };
  assert.equal(await after(0), 1, 'a page that is opened');
  assert.equal(await after(1000), 1, 'a page that is paused');
  p.now();
  assert.equal(await after(0), 2, 'a button that is pressed');
  paused = false;
  assert.equal(await after(1000), 3, 'a page that continues');
  p.stop();
  assert.equal(await after(5000), 3, 'a page that is left');
});
