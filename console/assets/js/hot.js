// The keys with the most requests, and those with the most load time.
import { h, panel, empty, text, attr, swap } from './dom.js';
import { Table } from './table.js';
import { meter, keyCell, drawKey } from './parts.js';
import { link } from './router.js';
import { poll } from './poll.js';
import { ask, part } from './api.js';
import { perSecond, rate, percent, duration, age, none } from './format.js';

const rows = 20;
const pause = 2000;

export class Hot {
  constructor(app, name) {
    this.app = app;
    this.title = 'Hot keys';
    const units = [...(app.store.snapshot.units || [])].sort((a, b) => b.requests - a.requests);
    this.name = name || (units[0] && units[0].name) || '';
    const shown = app.store.hello.features.keys;
    this.select = h('select', { id: 'hot-unit', onchange: () => { location.hash = link('hot', this.select.value); } });
    this.traffic = list('By traffic', 'requests per second, and shares of this route, method or Guard', shown, false, (k) => rate(k.rate), (k) => rate(k.rate - k.excess));
    this.loads = list('By load time', 'load time per second, and shares of this route, method or Guard', shown, true, (k) => duration(k.rate), (k) => duration(k.rate - k.excess));
    this.sum = h('p.sub');
    this.said = h('div');
    this.two = h('div.two.live', null, this.traffic.el, this.loads.el);
    this.el = h('div', null,
      h('div.page-head', null, h('h1', null, 'Hot keys'), h('label.unseen', { for: 'hot-unit' }, 'Route, method or Guard'), this.select, this.sum),
      shown ? null : h('p.lede', null, 'Keys are hidden. Each is shown as a digest, which stays the same until the program ends and does not reveal the key. The program’s configuration can show keys instead.'),
      this.said, this.two);
    this.fill(units);
    this.poll = poll(pause, (signal) => this.load(signal), () => app.resting || !this.name);
  }

  fill(units) {
    const names = units.map((u) => u.name);
    if (this.name && !names.includes(this.name)) names.unshift(this.name);
    swap(this.select, names.join('\n'), () => names.map((n) => h('option', { value: n, selected: n === this.name }, n)));
    attr(this.select, 'hidden', names.length === 0);
    if (!names.length) this.say('none', 'There is no route, method or Guard yet.', 'Hot keys are counted for each of them.');
  }

  async load(signal) {
    let hot;
    try {
      hot = await ask(`api/hot?unit=${part(this.name)}&n=${rows}`, { signal });
    } catch (err) {
      if (err.name === 'AbortError') throw err;
      this.say(err.message, 'Hot keys cannot be read.', err.message);
      return;
    }
    if (!hot.enabled) {
      this.say('off', `Hot keys are not counted for ${this.name}.`,
        'In a library, set HotKeys in the Options of the Guard or Handler, for example to 100. In a gateway’s configuration, set hot_keys of the route. Counting takes a few kilobytes per reported key.');
      text(this.sum, '');
      return;
    }
    const nothing = !(hot.by_traffic || []).length && !(hot.by_load_time || []).length;
    if (nothing) this.say('quiet', 'No key is hot.', 'There were no recent requests.');
    else this.say('', '', '');
    text(this.sum, `${perSecond(hot.requests_per_s)} in all, ${duration(hot.load_s_per_s)} of load time per second; over about ${age(hot.window_ns / 1e9)}`);
    this.traffic.draw(hot.by_traffic || []);
    this.loads.draw(hot.by_load_time || []);
  }

  // Explains why there are no tables; an empty key shows the tables.
  say(key, strong, words) {
    attr(this.two, 'hidden', key !== '');
    swap(this.said, key || 'tables', () => (key ? [empty(strong, words)] : []));
  }

  draw() {
    this.fill([...(this.app.store.snapshot.units || [])].sort((a, b) => a.name.localeCompare(b.name)));
  }

  destroy() {
    this.poll.stop();
  }
}

function list(title, hint, shown, warm, much, least) {
  const table = new Table({
    caption: title, key: (k) => k.id, nothing: 'None.', columns: [
      { name: 'key', head: shown ? 'Key' : 'Key, as a digest', loose: true, make: keyCell, draw: (td, k) => drawKey(td, k.key) },
      { name: 'share', head: 'Share', num: true, cell: (k) => percent(k.share) },
      { name: 'bar', head: h('span.unseen', null, 'Share as a bar'), draw: (td, k) => meter(td, k.share, warm) },
      { name: 'rate', head: warm ? 'Load time/s' : 'Requests/s', num: true, cell: (k) => much(k) },
      { name: 'least', head: 'At least', num: true, roomy: true, says: 'there are fewer counters than keys: the true value is between both', cell: (k) => (k.excess > k.rate / 50 ? least(k) : none), tone: () => 'zero' },
    ],
  });
  const el = panel(title, hint, table.el);
  return { el, draw: (keys) => table.draw(keys.map((k, i) => ({ ...k, id: k.key + (keys.findIndex((x) => x.key === k.key) === i ? '' : ' ' + i) }))) };
}
