// One unit: a Guard or a route.
import { h, empty, text, attr } from './dom.js';
import { Banners, badges } from './parts.js';
import { Received } from './received.js';
import { Numbers } from './numbers.js';
import { Budgets, Servers } from './machinery.js';
import { Flights } from './flights.js';
import { Alone, Counts, Entries, LimitFacts, Observing } from './facts.js';
import { received, answered, saved, troubles, times, limit, fixedLimit } from './charts.js';
import { attentionOf, calm } from './attention.js';
import { now, pointsOf, timed, counted, classesOf } from './rates.js';
import { link } from './router.js';
import { poll } from './poll.js';
import { ask, part } from './api.js';

const pause = 2000;

export class Unit {
  constructor(app, name = '') {
    this.app = app;
    this.name = name;
    this.title = name;
    this.state = h('span.live');
    this.kind = h('span.sub');
    this.banners = new Banners();
    this.received = new Received();
    this.servers = new Servers();
    this.numbers = new Numbers();
    this.charts = [];
    this.head = h('div.two.even');
    this.grid = h('div.two.even');
    this.flights = new Flights(app.store.hello.features.keys);
    this.counts = new Counts();
    this.entries = new Entries();
    this.limit = new LimitFacts();
    this.observing = new Observing();
    this.alone = new Alone();
    this.budgets = new Budgets();
    this.body = h('div.stack', null, this.banners.el, this.head, this.numbers.el, this.observing.el, this.alone.el, this.grid, this.flights.el,
      h('div.two', null, this.entries.el, this.limit.el), this.budgets.el, this.counts.el);
    this.none = h('div', { hidden: true }, empty(`There is no unit “${name}” now.`, 'It may have been removed from the configuration. The overview lists all units.'));
    this.el = h('div', null, h('div.page-head', null, h('a', { href: link('overview') }, 'Overview'), h('span.sub', { 'aria-hidden': 'true' }, '/'),
      h('h1', null, name), this.kind, this.state, h('span.grow'),
      h('a', { href: link('hot', name) }, 'Hot keys')), this.none, this.body);
    this.poll = poll(pause, (signal) => this.load(signal), () => app.resting);
  }

  async load(signal) {
    if (!this.app.store.unit(this.name)) return;
    try {
      const d = await ask('api/units/' + part(this.name), { signal });
      this.detail = d;
      this.flights.draw(d.flights || [], '');
      this.entries.draw(d.entries, d.unit);
    } catch (err) {
      if (err.name === 'AbortError') throw err;
      this.flights.draw(null, err.message);
    }
  }

  draw() {
    const { store, seconds, found } = this.app;
    const u = store.unit(this.name);
    attr(this.none, 'hidden', Boolean(u));
    attr(this.body, 'hidden', !u);
    if (!u) return;
    const series = store.series(this.name);
    const r = now(series, pointsOf(store), timed([u]));
    const mine = attentionOf(found, u);
    text(this.kind, u.kind);
    badges(this.state, mine, calm(u, r));
    this.banners.draw(mine);
    const l = u.limit && (store.snapshot.limits || []).find((x) => x.name === u.limit);
    this.servers.draw(store, found, u.upstream || '');
    this.lay(u, r.of, counted([u]), !this.servers.el.hidden, l);
    this.received.draw(r, series, seconds, store, [u]);
    this.numbers.draw(r, series, seconds, store, (x) => x.name === this.name);
    for (const c of this.charts) c.draw(c.ofLimit ? store.limits.get(u.limit) || { t: [] } : series, seconds, store.end());
    this.observing.draw(u);
    this.alone.draw(u);
    this.counts.draw(u);
    this.limit.draw(l, store, u.limit);
    this.budgets.draw(store, (b) => (b.kind === 'upstream' ? b.name === u.upstream : b.name === u.name));
  }

  // What there is depends on the unit and its limit.
  lay(u, of, counts, servers, l) {
    const key = [u.kind, of, counts, servers, l ? l.kind : ''].join();
    if (this.laid === key) return;
    this.laid = key;
    for (const c of this.charts) c.destroy();
    const time = times(of);
    const first = counts ? received(classesOf([u])) : null;
    const rest = [answered(), saved(), troubles()];
    if (l) {
      const c = l.kind === 'adaptive' ? limit() : fixedLimit();
      c.ofLimit = true;
      rest.push(c);
    }
    this.charts = [first, time, ...rest].filter(Boolean);
    this.head.replaceChildren(...(counts ? [this.received.el, servers ? this.servers.el : time.el, first.el, ...(servers ? [time.el] : [])] : []));
    this.grid.replaceChildren(...rest.map((c) => c.el), ...(counts ? [] : [time.el]));
    for (const e of [this.head, this.grid]) e.classList.toggle('odd', e.children.length % 2 === 1);
  }

  destroy() {
    this.poll.stop();
    for (const c of this.charts) c.destroy();
  }
}
