// The overview: what clients received and how the upstreams are, then what weir saves.
import { h, empty, attr } from './dom.js';
import { Banners } from './parts.js';
import { Received } from './received.js';
import { Numbers } from './numbers.js';
import { Hurting } from './hurting.js';
import { Units } from './units.js';
import { Budgets, Limits, Servers, Stores } from './machinery.js';
import { received, answered, saved, troubles, times } from './charts.js';
import { quiet } from './attention.js';
import { now, pointsOf, timed, counted, classesOf, isRPC } from './rates.js';

export class Overview {
  constructor(app) {
    this.app = app;
    this.title = 'Overview';
    this.banners = new Banners('Nothing needs attention.');
    this.waiting = h('div');
    this.received = new Received();
    this.numbers = new Numbers();
    this.hurting = new Hurting(app);
    this.servers = new Servers();
    this.units = new Units(app);
    this.limits = new Limits();
    this.budgets = new Budgets();
    this.stores = new Stores();
    this.head = h('div.two.even');
    this.grid = h('div.two.even');
    this.body = h('div.stack', null, this.head, this.numbers.el, this.grid, this.units.el,
      h('div.two', null, h('div.stack', null, this.limits.el, this.budgets.el), h('div.stack', null, this.stores.el)));
    this.el = h('div.stack', null, h('h1.unseen', { id: 'title' }, 'Overview'),
      h('div.stack', null, this.banners.el, this.waiting), this.body);
    this.charts = [];
  }

  draw() {
    const { store, seconds } = this.app;
    const { units = [] } = store.snapshot;
    const total = store.total;
    const r = now(total, pointsOf(store), timed(units));
    const idle = quiet(store);
    this.banners.draw(this.app.found, idle);
    this.drawEmpty(store, idle);
    this.lay(r.of, counted(units), units, (store.snapshot.servers || []).length > 0);
    this.received.draw(r, total, seconds, store, store.snapshot.unrouted ? [...units, { kind: 'route', responses: store.snapshot.unrouted }] : units);
    this.numbers.draw(r, total, seconds, store, () => true);
    for (const c of this.charts) c.draw(total, seconds, store.end());
    this.units.draw();
    this.limits.draw(store);
    this.budgets.draw(store);
    this.servers.draw(store, this.app.found);
    this.stores.draw(store);
  }

  // What there is depends on the units: a reload can add the first route.
  lay(of, counts, units, servers) {
    const key = [of, counts, isRPC(units), servers].join();
    if (this.laid === key) return;
    this.laid = key;
    for (const c of this.charts) c.destroy();
    const time = times(of);
    const first = counts ? received(classesOf(units)) : null;
    const rest = [answered(), saved(), troubles()];
    this.charts = [first, time, ...rest].filter(Boolean);
    this.head.replaceChildren(...(counts ? [this.received.el, servers ? this.servers.el : time.el, first.el, ...(servers ? [time.el] : [])] : []));
    this.grid.replaceChildren(...rest.map((c) => c.el), ...(counts ? [] : [time.el, ...(servers ? [this.servers.el] : [])]), ...(this.hurting.el.hidden ? [] : [this.hurting.el]));
    for (const e of [this.head, this.grid]) e.classList.toggle('odd', e.children.length % 2 === 1);
  }

  drawEmpty(store, idle) {
    const none = !(store.snapshot.units || []).length;
    attr(this.waiting, 'hidden', !(none || idle));
    for (const e of [this.head, this.numbers.el, this.grid]) attr(e, 'hidden', none);
    const key = none ? 'none' : 'quiet';
    if (this.waiting.dataset.key === key) return;
    this.waiting.dataset.key = key;
    this.waiting.replaceChildren(none
      ? empty('There is nothing to show yet.', 'This console has no Guards and no routes, and no gRPC method was called yet. A gateway shows its routes once its configuration has some.')
      : empty('No traffic yet.', 'Everything below is zero until the first request. The page updates automatically.'));
  }

  destroy() {
    this.hurting.destroy();
    for (const c of this.charts) c.destroy();
  }
}
