// The keys with the most load time, of the units that load the most. An operator needs
// them first when the source is overloaded.
import { h, panel, text, attr } from './dom.js';
import { Table } from './table.js';
import { meter } from './parts.js';
import { link } from './router.js';
import { poll } from './poll.js';
import { ask, part } from './api.js';
import { now, last } from './rates.js';
import { duration, percent } from './format.js';

const pause = 4000;
const units = 4; // that are polled
const rows = 5;
const nothing = 'No key is hot: there were no recent loads.';

export class Hurting {
  constructor(app) {
    this.app = app;
    const shown = app.store.hello.features.keys;
    this.table = new Table({
      caption: 'Keys that cost the most', key: (k) => k.unit + ' ' + k.key, nothing, columns: [
        { name: 'key', head: shown ? 'Key' : 'Key, as a digest', make: (td) => { td.key = h('span.key.mono'); td.append(td.key); },
          draw: (td, k) => { text(td.key, k.key); attr(td.key, 'title', k.key); } },
        { name: 'rate', head: 'Load time/s', num: true, says: 'time spent loading it, per second', cell: (k) => duration(k.rate) },
        { name: 'share', head: 'Share', num: true, says: 'of the load time of its route or Guard', cell: (k) => percent(k.share) },
        { name: 'bar', head: h('span.unseen', null, 'Share as a bar'), roomy: true, draw: (td, k) => meter(td, k.share, true) },
        { name: 'unit', head: 'Of', make: (td) => { td.a = h('a'); td.append(td.a); }, draw: (td, k) => { text(td.a, k.unit); td.a.href = link('hot', k.unit); } },
      ],
    });
    this.el = panel('Keys that cost the most', 'load time per second', this.table.el);
    this.el.hidden = !app.store.hello.features.hot;
    this.off = new Map(); // units that do not count hot keys, and when that was found
    if (!this.el.hidden) this.poll = poll(pause, (signal) => this.load(signal), () => app.resting);
  }

  // The units that load the most, by the time of their calls.
  busiest() {
    const { store } = this.app;
    const load = (u) => {
      const s = store.series(u.name);
      return now(s, 20).calls * (last(s.call_p50, 60) || 0.001);
    };
    return (store.snapshot.units || []).filter((u) => Date.now() - (this.off.get(u.name) || 0) > 60000)
      .map((u) => [u.name, load(u)]).sort((a, b) => b[1] - a[1]).slice(0, units).map(([name]) => name);
  }

  async load(signal) {
    let wrong = '';
    const lists = await Promise.all(this.busiest().map(async (unit) => {
      try {
        const hot = await ask(`api/hot?unit=${part(unit)}&n=${rows}`, { signal });
        if (!hot.enabled) this.off.set(unit, Date.now());
        return (hot.by_load_time || []).map((k) => ({ ...k, unit }));
      } catch (err) {
        if (err.name === 'AbortError') throw err;
        wrong = err.message;
        return [];
      }
    }));
    text(this.table.none, wrong ? 'It cannot be read: ' + wrong : nothing);
    if (wrong && this.table.rows.length) return; // keep the last rows
    this.table.draw(lists.flat().sort((a, b) => b.rate - a.rate).slice(0, rows));
  }

  destroy() {
    if (this.poll) this.poll.stop();
  }
}
