// The flights in progress.
import { h, panel, text, swap } from './dom.js';
import { keyCell, drawKey } from './parts.js';
import { Table } from './table.js';
import { count, nanos, many } from './format.js';

const states = {
  asking: ['asking', 'plain', 'it checks whether another instance has the value'],
  queued: ['queued', 'warn', 'it waits for admission'],
  running: ['running', 'good', 'the source is processing it'],
  streaming: ['streaming', 'good', 'the response header has arrived, the body follows'],
  stuck: ['stuck', 'bad', 'abandoned, but its function has not returned'],
};

export class Flights {
  constructor(keysAreShown) {
    this.table = new Table({
      caption: 'Flights', key: (r) => r.id, sort: '-age', nothing: 'No shared call to the source is running or waiting.', columns: [
        { name: 'key', head: keysAreShown ? 'Key' : 'Key, as a digest', loose: true, make: (td) => { keyCell(td); td.more = h('span.sub-name'); td.append(td.more); },
          draw: (td, r) => { drawKey(td, r.key); text(td.more, r.keys > 1 ? `and ${r.keys - 1} more keys` : ''); } },
        { name: 'state', head: 'State', sort: (r) => r.state, draw: state },
        { name: 'age', head: 'Age', num: true, sort: (r) => r.age_ns, cell: (r) => nanos(r.age_ns) },
        { name: 'joiners', head: 'Joiners', num: true, says: 'requests that wait for it now', sort: (r) => r.joiners, cell: (r) => count(r.joiners), tone: (r) => (r.joiners ? '' : 'zero') },
        { name: 'background', head: 'Why', says: 'refreshes run in the background', cell: (r) => (r.background ? 'refresh' : 'asked for') },
      ],
    });
    this.el = panel('In flight', 'updated every 2 seconds', this.table.el);
    this.el.classList.add('tall');
    this.hint = this.el.head.querySelector('.hint');
  }

  // flights is null if they could not be read; why is the reason.
  draw(flights, why) {
    if (!flights) {
      text(this.hint, why);
      return;
    }
    text(this.hint, flights.length ? `${many(flights.length, 'flight')}, updated every 2 seconds` : 'updated every 2 seconds');
    const seen = new Map();
    this.table.draw(flights.map((f) => {
      const n = (seen.get(f.key) || 0) + 1;
      seen.set(f.key, n);
      return { ...f, id: f.key + ' ' + n };
    }));
  }
}

function state(td, r) {
  const [words, level, says] = states[r.state] || [r.state, 'plain', ''];
  swap(td, r.state, () => h('span.badge', { 'data-level': level, title: says }, words));
}
