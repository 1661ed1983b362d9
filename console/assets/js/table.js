// A table that keeps its rows while their numbers change, sorted by the user.
import { h, text, attr, each } from './dom.js';

// columns: [{name, head, num, roomy, wrap, loose, says, sort(row), cell(row): text,
// make(td), draw(td, row), tone(row)}]. A cell with wrap takes the rest of the
// row and cuts its text; a loose one shows it in several lines. The first is the row's header.
// caption is the table's name.
export class Table {
  constructor({ caption, columns, key, sort, nothing }) {
    this.columns = columns;
    this.key = key;
    this.by = sort ? sort.replace('-', '') : '';
    this.down = Boolean(sort && sort.startsWith('-'));
    this.body = h('tbody');
    this.heads = columns.map((c) => this.head(c));
    this.table = h('table', null, h('caption.unseen', null, caption), h('thead', null, h('tr', null, this.heads)), this.body);
    this.scroll = h('div.scroll.live', { tabindex: '0', role: 'region', 'aria-label': caption + ', scrolls sideways' }, this.table);
    this.none = h('p.empty', { hidden: true }, nothing || 'Nothing.');
    this.el = h('div', null, this.scroll, this.none);
    this.rows = [];
  }

  head(c) {
    const classes = 'th' + (c.num ? '.num' : '') + (c.roomy ? '.roomy' : '');
    if (!c.sort) return h(classes, { scope: 'col', title: c.says }, c.head);
    return h(classes, { scope: 'col', title: c.says }, h('button', { type: 'button', onclick: () => this.sortBy(c) }, c.head));
  }

  sortBy(c) {
    this.down = this.by === c.name ? !this.down : Boolean(c.num);
    this.by = c.name;
    this.draw(this.rows);
  }

  draw(rows) {
    this.rows = rows;
    const c = this.columns.find((x) => x.name === this.by);
    const sorted = c ? [...rows].sort((a, b) => this.compare(c, a, b)) : rows;
    this.columns.forEach((x, i) => attr(this.heads[i], 'aria-sort', x === c && c.sort ? (this.down ? 'descending' : 'ascending') : null));
    each(this.body, sorted, this.key, () => this.row(), (tr, row) => this.update(tr, row));
    attr(this.scroll, 'hidden', rows.length === 0);
    attr(this.none, 'hidden', rows.length > 0);
  }

  // Rows without a value come last either way, and equal rows keep their order.
  compare(c, a, b) {
    const x = c.sort(a);
    const y = c.sort(b);
    const noX = x === null || x === undefined || Number.isNaN(x);
    const noY = y === null || y === undefined || Number.isNaN(y);
    if (noX || noY) return noX - noY;
    const order = typeof x === 'string' ? x.localeCompare(y) : x - y;
    return this.down ? -order : order;
  }

  row() {
    const cells = this.columns.map((c, i) => {
      const td = h((i ? 'td' : 'th') + (c.num ? '.num' : '') + (c.roomy ? '.roomy' : '') + (c.wrap ? '.wrap' : c.loose ? '.loose' : ''), i ? null : { scope: 'row' });
      if (c.make) c.make(td);
      return td;
    });
    return h('tr', null, cells);
  }

  update(tr, row) {
    this.columns.forEach((c, i) => {
      const td = tr.children[i];
      if (c.cell) text(td, c.cell(row));
      if (c.draw) c.draw(td, row);
      if (c.tone) {
        const tone = c.tone(row) || '';
        for (const t of ['zero', 'hurts', 'minds']) td.classList.toggle(t, t === tone);
      }
    });
  }
}
