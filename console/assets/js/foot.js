// The last line of each page: facts about the program.
import { h, swap, text } from './dom.js';
import { age, bytes, count, between } from './format.js';

export class Foot {
  constructor(el) {
    this.el = el;
  }

  draw(store) {
    const p = store.snapshot.process;
    const facts = [
      ['version', p.version], ['', p.go], ['process', p.pid], ['up', age(between(p.started, store.snapshot.at))],
      ['state', p.state && p.state !== 'ready' ? 'not ready' : 'ready'], ['goroutines', count(p.goroutines)], ['heap', bytes(p.memory)],
    ].filter(([, v]) => v);
    swap(this.el, facts.length, () => facts.map(([k]) => h('span', null, k ? k + ' ' : '', h('b'))));
    facts.forEach(([, v], i) => text(this.el.children[i].lastChild, v));
  }
}
