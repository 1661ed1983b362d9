// The console: connects the stream, the store, the bar and the pages.
import { h, text, attr } from './dom.js';
import { visible } from './visible.js';
import { Store } from './store.js';
import { Events } from './events.js';
import { Bar } from './bar.js';
import { Overview } from './overview.js';
import { Unit } from './unit.js';
import { Hot } from './hot.js';
import { Fleet } from './fleet.js';
import { Jobs } from './jobs.js';
import { Job } from './job.js';
import { Idempotency } from './idempotency.js';
import { Explain } from './explain.js';
import { Purge } from './purge.js';
import { Nowhere } from './nowhere.js';
import { Foot } from './foot.js';
import { parse } from './router.js';
import { shortcuts, help } from './shortcuts.js';
import { read, write } from './memory.js';
import { ask, toLogin } from './api.js';
import { age } from './format.js';

const all = { overview: Overview, unit: Unit, hot: Hot, fleet: Fleet, jobs: Jobs, idempotency: Idempotency, explain: Explain, purge: Purge };

class App {
  constructor() {
    this.store = new Store();
    this.found = [];
    const range = Number(read('range'));
    this.view = { range: [60, 300, 600].includes(range) ? range : 300, paused: false };
    this.main = document.getElementById('main');
    this.lost = document.getElementById('lost');
    this.foot = new Foot(document.getElementById('foot'));
    this.bar = new Bar(document.getElementById('bar'), {
      range: (s) => this.setRange(s), pause: () => this.pause(), help, logout: () => this.logout(),
    });
    this.bar.drawView(this.view);
    this.announced = new Set();
    this.events = new Events({
      hello: (x) => this.hello(x),
      tick: (x) => this.tick(x),
      lost: (x) => this.lose(x),
      found: () => this.find(),
    });
  }

  start() {
    this.main.replaceChildren(h('p.empty', null, 'Waiting for the first data…'));
    addEventListener('hashchange', () => this.open(true));
    document.addEventListener('visibilitychange', () => this.drawSoon());
    shortcuts({ pause: () => this.pause() });
    this.events.start();
  }

  hello(x) {
    const first = !this.store.hello;
    this.store.open(x);
    if (first) this.open(false);
    this.drawSoon();
  }

  tick(x) {
    this.store.tick(x);
    if (!this.view.paused) this.drawSoon();
  }

  // Opens the page in the address.
  open(moved) {
    if (!this.store.hello) return;
    const { page, args, query } = parse(location.hash);
    if (this.page) this.page.destroy();
    this.at = page;
    this.query = query;
    this.page = !Object.hasOwn(all, page) ? new Nowhere(page) : page === 'jobs' && args.length === 2 ? new Job(this, ...args) : new all[page](this, ...args);
    this.main.replaceChildren(this.page.el);
    document.title = visible(`${this.page.title} · ${this.store.hello.title || 'weir'}`);
    this.bar.draw(this.store.hello, this.at);
    this.draw();
    if (moved) {
      scrollTo(0, 0);
      this.main.focus({ preventScroll: true });
    }
  }

  // Whether pages should not send requests.
  get resting() {
    return this.view.paused || this.isLost;
  }

  drawSoon() {
    if (this.drawing || document.hidden || !this.store.snapshot) return;
    this.drawing = true;
    requestAnimationFrame(() => {
      this.drawing = false;
      this.draw();
    });
  }

  // How many seconds charts show: the range, or the part with data, because a program that
  // has just started would be a line at the edge.
  get seconds() {
    const t = this.store.total.t;
    const have = t.length ? this.store.end() - t[0] : 0;
    return Math.min(this.view.range, Math.max(60, have));
  }

  draw() {
    this.found = this.store.incidents;
    document.body.classList.toggle('is-outage', this.found.some((f) => f.level === 'bad')); // then nothing is green
    this.bar.draw(this.store.hello, this.at);
    this.page.draw();
    this.foot.draw(this.store);
    this.announce();
  }

  // Announces new findings to a screen reader, each once.
  announce() {
    const urgent = this.found.filter((f) => f.level !== 'note');
    const fresh = urgent.filter((f) => !this.announced.has(f.key));
    if (fresh.length) {
      text(document.getElementById('announce'), fresh.slice(0, 3).map((f) => `${f.subject}: ${f.text}`).join(' '));
    }
    this.announced = new Set(urgent.map((f) => f.key));
  }

  setRange(s) {
    this.view.range = s;
    write('range', s);
    this.bar.drawView(this.view);
    this.drawSoon();
  }

  pause() {
    this.view.paused = !this.view.paused;
    this.bar.drawView(this.view);
    if (!this.isLost) this.find();
    if (!this.view.paused) this.drawSoon();
  }

  find() {
    this.isLost = false;
    clearInterval(this.counting);
    attr(this.lost, 'hidden', true);
    document.body.classList.remove('is-lost');
    this.bar.drawState(this.view.paused ? 'paused' : 'live', this.view.paused ? 'Paused' : 'Live');
  }

  lose({ since, retryAt }) {
    if (!this.isLost) {
      this.again = h('button', { type: 'button', onclick: () => this.events.now() }, 'Try now');
      this.said = h('span');
      this.lost.replaceChildren(this.said, ' ', this.again);
    }
    this.isLost = true;
    document.body.classList.add('is-lost');
    attr(this.lost, 'hidden', false);
    this.bar.drawState('lost', 'No connection');
    const say = () => text(this.said, `weir has not answered for ${age((Date.now() - since) / 1000)}. ` +
      `${this.store.hello ? 'The data shown is old. ' : ''}${retryAt > Date.now() ? `Trying again in ${age((retryAt - Date.now()) / 1000 + 0.5)}.` : 'Trying again.'}`);
    clearInterval(this.counting);
    this.counting = setInterval(say, 1000);
    say();
  }

  async logout() {
    try {
      await ask('logout', { method: 'POST' });
    } catch { /* the login page shows the state */ }
    toLogin();
  }
}

new App().start();
