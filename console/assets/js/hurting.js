// The keys with the most load time, of all units. An operator needs
// them first when the source is overloaded.
import { h, panel, text } from './dom.js';
import { Table } from './table.js';
import { meter, keyCell, drawKey } from './parts.js';
import { link } from './router.js';
import { poll } from './poll.js';
import { ask } from './api.js';
import { duration, percent } from './format.js';

const pause = 4000;
const rows = 5;
const nothing = 'No key is hot: there were no recent loads.';

export class Hurting {
  constructor(app) {
    this.app = app;
    const shown = app.store.hello.features.keys;
    this.table = new Table({
      caption: 'Keys that cost the most', key: (k) => k.unit + ' ' + k.key, nothing, columns: [
        { name: 'key', head: shown ? 'Key' : 'Key, as a digest', loose: true, make: keyCell, draw: (td, k) => drawKey(td, k.key) },
        { name: 'rate', head: 'Load time/s', num: true, says: 'time spent loading it, per second', cell: (k) => duration(k.rate) },
        { name: 'share', head: 'Share', num: true, says: 'of the load time of all routes, methods and Guards', cell: (k) => percent(k.share) },
        { name: 'bar', head: h('span.unseen', null, 'Share as a bar'), roomy: true, draw: (td, k) => meter(td, k.share, true) },
        { name: 'unit', head: 'Of', make: (td) => { td.a = h('a'); td.append(td.a); }, draw: (td, k) => { text(td.a, k.unit); td.a.href = link('hot', k.unit); } },
      ],
    });
    this.el = panel('Keys that cost the most', 'load time per second', this.table.el);
    this.el.hidden = !app.store.hello.features.hot;
    if (!this.el.hidden) this.poll = poll(pause, (signal) => this.load(signal), () => app.resting);
  }

  async load(signal) {
    try {
      const hot = await ask(`api/hot?n=${rows}`, { signal });
      text(this.table.none, nothing);
      this.table.draw(hot.by_load_time || []);
    } catch (err) {
      if (err.name === 'AbortError') throw err;
      text(this.table.none, 'It cannot be read: ' + err.message);
      this.table.draw(this.table.rows); // keep the last rows
    }
  }

  destroy() {
    if (this.poll) this.poll.stop();
  }
}
