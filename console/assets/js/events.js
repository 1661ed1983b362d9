// The event stream. A browser reconnects automatically, but does not report why it could
// not. So this reconnects: an ended session goes to the login, and everything else is
// retried after increasing pauses.
import { toLogin } from './api.js';

const shortest = 1000;
const longest = 20000;
const silence = 3; // intervals without a tick after which the connection counts as lost

export class Events {
  // on has hello(Hello), tick(Tick), lost({since, retryAt}) and found().
  constructor(on) {
    this.on = on;
    this.pause = shortest;
    this.lostSince = 0;
    this.watch = 0;
  }

  start() {
    this.stop();
    this.source = new EventSource('events');
    this.source.addEventListener('hello', (e) => this.hello(JSON.parse(e.data)));
    this.source.addEventListener('tick', (e) => this.tick(JSON.parse(e.data)));
    this.source.onerror = () => this.fail();
    this.expect(10000);
  }

  stop() {
    clearTimeout(this.watch);
    clearTimeout(this.timer);
    if (this.source) this.source.close();
    this.source = null;
  }

  hello(h) {
    this.interval = Math.max(500, (h.interval_ns || 1e9) / 1e6);
    this.pause = shortest;
    this.lostSince = 0;
    this.on.hello(h);
    this.on.found();
    this.expect(silence * this.interval + 4000);
  }

  tick(t) {
    this.on.tick(t);
    this.expect(silence * this.interval + 4000);
  }

  // A stream can stall without an error, for example over an unplugged cable.
  expect(within) {
    clearTimeout(this.watch);
    this.watch = setTimeout(() => this.fail(), within);
  }

  fail() {
    this.stop();
    this.lostSince = this.lostSince || Date.now();
    const wait = this.pause * (0.75 + Math.random() / 2);
    this.pause = Math.min(longest, this.pause * 2);
    this.on.lost({ since: this.lostSince, retryAt: Date.now() + wait });
    this.timer = setTimeout(() => this.now(), wait);
  }

  // Tries again. It sends a plain request first, because a failed EventSource does not
  // report why.
  async now() {
    this.stop();
    try {
      const r = await fetch('api/snapshot', { cache: 'no-store', credentials: 'same-origin' });
      if (r.body) r.body.cancel();
      if (r.status === 401) toLogin();
      else if (r.ok) this.start();
      else this.fail();
    } catch {
      this.fail();
    }
  }
}
