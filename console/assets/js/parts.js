// Small parts that several pages use.
import { h, text, attr, swap, each } from './dom.js';
import { link } from './router.js';
import { spark } from './spark.js';

const signs = { bad: 'Act', warn: 'Watch', note: 'Note', good: 'OK' };
const most = 4;

// The incidents that need attention, in words, with the next step; without any, a line that
// reports that.
export class Banners {
  constructor(calm) {
    this.calm = calm;
    this.list = h('ul.banners');
    this.most = most;
    this.more = h('button.quiet.more-banners', { type: 'button', hidden: true, onclick: () => this.toggle() });
    this.el = h('section.live', { 'aria-label': 'What needs attention' }, this.list, this.more);
  }

  // With quiet there is no traffic, so the line that nothing is wrong is left out.
  draw(found, quiet) {
    this.found = found;
    const shown = found.slice(0, this.most);
    const items = shown.length ? shown : this.calm && !quiet ? [{ key: 'calm', level: 'good', text: this.calm }] : [];
    each(this.list, items, (f) => f.key, (f) => this.make(f), (li, f) => {
      attr(li, 'data-level', f.level);
      text(li.firstChild, signs[f.level]);
      text(li.words, f.text);
      text(li.next, f.next ? 'Next: ' + f.next : '');
      attr(li.next, 'hidden', !f.next);
    });
    attr(this.list, 'hidden', items.length === 0);
    attr(this.more, 'hidden', found.length <= most);
    text(this.more, this.most === most ? `Show ${found.length - most} more` : 'Show only the worst');
    attr(this.more, 'aria-expanded', String(this.most !== most));
  }

  toggle() {
    this.most = this.most === most ? Infinity : most;
    this.draw(this.found);
  }

  make(f) {
    const words = h('span');
    const who = f.subject;
    const href = f.page || (f.units && f.units.length === 1 ? link('unit', f.units[0]) : '');
    const next = h('p.next');
    const p = h('p', null, who ? [href ? h('a', { href }, who) : h('b', null, who), ': '] : null, words);
    const li = h('li.banner', null, h('span.sign'), h('div', null, p, next));
    li.words = words;
    li.next = next;
    return li;
  }
}

// Badges in a cell, alike ones once; without findings, the general state.
export function badges(td, found, otherwise) {
  const list = [];
  for (const f of found.length ? found : [otherwise]) {
    const alike = list.find((l) => l.badge === f.badge && l.level === f.level);
    if (alike) alike.text += '\n' + f.text;
    else list.push({ level: f.level, badge: f.badge, text: f.text });
  }
  swap(td, list.map((f) => f.level + f.badge).join(), () => h('span.badges', null,
    list.map((f) => h('span.badge', { 'data-level': f.level, title: f.text }, f.badge))));
}

// One big number, with a line of its history.
export class Tile {
  constructor(name, color, { says, pair } = {}) {
    this.big = h('p.big', null, '–');
    this.note = h('p.note');
    this.line = color ? spark(color) : null;
    this.el = h('section.tile.live' + (pair ? '.pair' : ''), { title: says, 'aria-label': name }, h('p.name', null, name), this.big, this.note, this.line);
  }

  draw(big, unit, note, values, level) {
    swap(this.big, big + '|' + unit, () => [document.createTextNode(big), h('small', null, unit)]);
    text(this.note, note);
    attr(this.el, 'data-level', level);
    if (this.line) this.line.draw(values);
  }
}

// Fills a bar and its key: items have name, label, color and value.
export function bars(bar, key, items, sum, say, title) {
  each(bar, items, (k) => k.name, () => h('i'), (i, k) => {
    i.style.flexGrow = String(k.value / (sum || 1));
    i.style.background = `var(${k.color})`;
  });
  each(key, items, (k) => k.name, (k) => {
    const mark = h('i.swatch', { 'aria-hidden': 'true' });
    mark.style.background = `var(${k.color})`;
    const li = h('li', null, mark, k.label, h('b'));
    return li;
  }, (li, k) => {
    text(li.lastChild, say(k));
    attr(li, 'title', title && title(k).trim());
  });
}

// Fills a bar and its key, which is a list with the rate and the share of each item, also
// of those that are zero: one that is missing would look like an oversight.
export function shares(bar, key, items, sum, rateOf, shareOf) {
  each(bar, items.filter((k) => k.value > 0), (k) => k.name, () => h('i'), (i, k) => {
    i.style.flexGrow = String(k.value / (sum || 1));
    i.style.background = `var(${k.color})`;
  });
  each(key, items, (k) => k.name, (k) => {
    const mark = h('i.swatch', { 'aria-hidden': 'true' });
    mark.style.background = `var(${k.color})`;
    return h('li', { title: k.says, 'data-class': k.name }, mark, h('span.name', null, k.label), h('b'), h('span.share'), h('small'));
  }, (li, k) => {
    const [, , value, part, note] = li.children;
    text(value, rateOf(k));
    text(part, shareOf(k));
    text(note, k.note || '');
    li.classList.toggle('zero', !(k.value > 0));
  });
}

// A share as a separate bar.
export function meter(td, value, warm) {
  if (!td.meter) {
    td.meter = h('i');
    td.append(h('span.meter' + (warm ? '.warm' : ''), { 'aria-hidden': 'true' }, td.meter));
  }
  td.meter.style.width = Math.max(0, Math.min(1, value || 0)) * 100 + '%';
}

export const result = (level, ...words) => h('div.result', { 'data-level': level, role: level === 'bad' ? 'alert' : 'status' }, ...words);

// A key in a cell. The path of a URL is what distinguishes it, so the path comes first, and
// the host is beside it.
export function keyCell(td) {
  td.key = h('span.key.mono');
  td.host = h('span.sub-name');
  td.append(td.key, td.host);
}

export function drawKey(td, key) {
  const m = /^([a-z]+:\/\/[^/?#]+)(\/.*)$/.exec(key);
  text(td.key, m ? m[2] : key);
  text(td.host, m ? m[1] : '');
  attr(td.key, 'title', key);
}
