// The overview: savings, refusals, and the most expensive keys.
import { h, empty, attr } from './dom.js';
import { Banners } from './parts.js';
import { Numbers } from './numbers.js';
import { Hurting } from './hurting.js';
import { Units } from './units.js';
import { Limits, Servers, Stores } from './machinery.js';
import { answered, saved, troubles, times } from './charts.js';
import { quiet } from './attention.js';
import { now, pointsOf, timed } from './rates.js';

export class Overview {
  constructor(app) {
    this.app = app;
    this.title = 'Overview';
    this.banners = new Banners('Nothing needs attention.');
    this.waiting = h('div');
    this.numbers = new Numbers();
    this.hurting = new Hurting(app);
    this.charts = [answered(), saved(), troubles()];
    this.grid = h('div.two.even', null, this.charts.map((c) => c.el), this.hurting.el);
    this.grid.classList.toggle('odd', !this.hurting.el.hidden);
    this.units = new Units(app);
    this.limits = new Limits();
    this.servers = new Servers();
    this.stores = new Stores();
    this.el = h('div.stack', null, h('h1.unseen', { id: 'title' }, 'Overview'),
      h('div', null, this.banners.el, this.waiting, this.numbers.el),
      this.grid, this.units.el, h('div.two', null, h('div.stack', null, this.limits.el), h('div.stack', null, this.servers.el, this.stores.el)));
  }

  draw() {
    const { store, seconds } = this.app;
    const total = store.total;
    const r = now(total, pointsOf(store), timed(store.snapshot.units));
    const idle = quiet(store);
    this.banners.draw(this.app.found, idle);
    this.drawEmpty(store, idle);
    this.numbers.draw(r, total, seconds, store, () => true);
    if (this.of !== r.of) this.addTimes(r.of);
    for (const c of this.charts) c.draw(total, seconds, store.end());
    this.units.draw();
    this.limits.draw(store);
    this.servers.draw(store);
    this.stores.draw(store);
  }

  // A reload can add the first route, whose requests are timed: then the chart is
  // replaced.
  addTimes(of) {
    if (this.of) this.charts.pop().destroy();
    this.of = of;
    const c = times(of);
    this.charts.push(c);
    if (this.grid.children.length > 4) this.grid.lastChild.remove();
    this.grid.append(c.el);
  }

  drawEmpty(store, idle) {
    const none = !(store.snapshot.units || []).length;
    attr(this.waiting, 'hidden', !(none || idle));
    for (const e of [this.numbers.el, this.grid]) attr(e, 'hidden', none);
    const key = none ? 'none' : 'quiet';
    if (this.waiting.dataset.key === key) return;
    this.waiting.dataset.key = key;
    this.waiting.replaceChildren(none
      ? empty('There is nothing to show yet.', 'This console has no Guards and no routes. A gateway shows its routes once its configuration has some.')
      : empty('No traffic yet.', 'Everything below is zero until the first request. The page updates automatically.'));
  }

  destroy() {
    this.hurting.destroy();
    for (const c of this.charts) c.destroy();
  }
}
