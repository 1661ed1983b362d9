// Small parts that several pages use.
import { h, text, attr, swap, each } from './dom.js';
import { link } from './router.js';
import { spark } from './spark.js';
import { kinds, share, own } from './rates.js';
import { percent, rate } from './format.js';

const signs = { bad: 'Act', warn: 'Watch', note: 'Note', good: 'Well' };
const most = 4;

// The findings that need attention, in words; without any, a line that reports that.
export class Banners {
  constructor(well) {
    this.well = well;
    this.list = h('ul.banners');
    this.most = most;
    this.more = h('button.quiet.more-banners', { type: 'button', hidden: true, onclick: () => this.toggle() });
    this.el = h('section.live', { 'aria-label': 'What needs attention' }, this.list, this.more);
  }

  // With quiet there is no traffic, so the line that all is well is left out.
  draw(found, quiet) {
    this.found = found;
    const shown = found.slice(0, this.most);
    const items = shown.length ? shown : this.well && !quiet ? [{ key: 'well', level: 'good', text: this.well }] : [];
    each(this.list, items, (f) => f.key, (f) => this.make(f), (li, f) => {
      attr(li, 'data-level', f.level);
      text(li.firstChild, signs[f.level]);
      text(li.words, f.text);
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
    const who = f.unit || f.subject || f.limit;
    const href = f.unit ? link('unit', f.unit) : f.page;
    const p = h('p', null, who ? [href ? h('a', { href }, who) : h('b', null, who), ': '] : null, words);
    const li = h('li.banner', null, h('span.sign'), p);
    li.words = words;
    return li;
  }
}

// Badges in a cell; without findings, the general state.
export function badges(td, found, otherwise) {
  const list = found.length ? found : [otherwise];
  swap(td, list.map((f) => f.level + f.badge).join(), () => h('span.badges', null,
    list.map((f) => h('span.badge', { 'data-level': f.level, title: f.text }, f.badge))));
}

// One big number, with a line of its history.
export class Tile {
  constructor(name, colour, { says, pair } = {}) {
    this.big = h('p.big', null, '–');
    this.note = h('p.note');
    this.line = colour ? spark(colour) : null;
    this.el = h('section.tile.live' + (pair ? '.pair' : ''), { title: says, 'aria-label': name }, h('p.name', null, name), this.big, this.note, this.line);
  }

  draw(big, unit, note, values, level) {
    swap(this.big, big + '|' + unit, () => [document.createTextNode(big), h('small', null, unit)]);
    text(this.note, note);
    attr(this.el, 'data-level', level);
    if (this.line) this.line.draw(values);
  }
}

// How requests are answered now, as one bar with its key.
export class Mix {
  constructor() {
    this.bar = h('div.mix-bar', { 'aria-hidden': 'true' });
    this.key = h('ul.mix-key');
    this.el = h('div.mix', null, this.bar, this.key);
  }

  draw(r) {
    const all = [...kinds.map((k) => ({ ...k, value: r.kinds[k.name] })), { name: 'own', label: 'Own call', color: '--c-calls', value: own(r.calls, r.refreshes, r.kinds.validated) }, { name: 'refused', label: 'Refused', color: '--c-refused', value: r.refused }];
    const sum = all.reduce((s, k) => s + k.value, 0);
    bars(this.bar, this.key, all.filter((k) => k.value > sum / 2000), sum, (k) => percent(share(k.value, sum)), (k) => `${k.says || ''} ${rate(k.value)}/s`);
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

// A share as a separate bar.
export function meter(td, value, warm) {
  if (!td.meter) {
    td.meter = h('i');
    td.append(h('span.meter' + (warm ? '.warm' : ''), { 'aria-hidden': 'true' }, td.meter));
  }
  td.meter.style.width = Math.max(0, Math.min(1, value || 0)) * 100 + '%';
}

export const result = (level, ...words) => h('div.result', { 'data-level': level, role: level === 'bad' ? 'alert' : 'status' }, ...words);
