// The table of units.
import { h, panel, text } from './dom.js';
import { Table } from './table.js';
import { badges } from './parts.js';
import { spark } from './spark.js';
import { link } from './router.js';
import { attentionOf, calm } from './attention.js';
import { now, pointsOf, timed } from './rates.js';
import { rate, percent, duration, count, none } from './format.js';

const weight = { bad: 3, warn: 2, note: 1 };

export class Units {
  constructor(app) {
    this.app = app;
    this.filter = h('input', { type: 'search', placeholder: 'Filter', 'aria-label': 'Filter by name', 'data-filter': true, autocomplete: 'off', spellcheck: 'false', oninput: () => this.draw() });
    this.table = new Table({
      caption: 'Units', key: (r) => r.unit.name, sort: '-requests', nothing: 'No route, method or Guard matches.', columns: columns(),
    });
    this.el = panel('Routes, methods and Guards', 'click one for details', this.table.el);
    this.el.head.append(h('span.right.filter', null, this.filter));
  }

  draw() {
    const { store, found, seconds } = this.app;
    const units = store.snapshot.units || [];
    const wanted = this.filter.value.trim().toLowerCase();
    this.el.hidden = !units.length;
    this.table.draw(units.filter((u) => u.name.toLowerCase().includes(wanted)).map((unit) => {
      const series = store.series(unit.name);
      return { unit, r: now(series, pointsOf(store), timed([unit])), found: attentionOf(found, unit), series, range: seconds / store.interval };
    }));
  }
}

function columns() {
  const graph = (name, color) => ({
    make: (td) => { td.line = spark(color); td.append(td.line); },
    draw: (td, r) => td.line.draw((r.series[name] || []).slice(-r.range)),
  });
  const loud = (x) => (x === 0 ? 'zero' : '');
  // The tone follows the level of the findings, so that no number is red or orange beside
  // a healthy state.
  const bad = (x, r) => (x === 0 ? 'zero' : r.found.some((f) => f.level === 'bad') ? 'hurts' : r.found.some((f) => f.level === 'warn') ? 'minds' : '');
  return [
    { name: 'name', head: 'Name', sort: (r) => r.unit.name,
      make: (td) => { td.a = h('a'); td.kind = h('span.sub-name'); td.append(td.a, td.kind); },
      draw: (td, r) => { text(td.a, r.unit.name); td.a.href = link('unit', r.unit.name); text(td.kind, r.unit.kind); } },
    { name: 'state', head: 'State', sort: (r) => -Math.max(0, ...r.found.map((f) => weight[f.level])),
      draw: (td, r) => badges(td, r.found, calm(r.unit, r.r)) },
    { name: 'requests', head: 'Requests/s', num: true, says: 'to weir', sort: (r) => r.r.requests, cell: (r) => rate(r.r.requests), tone: (r) => loud(r.r.requests) },
    { name: 'requests-line', head: h('span.unseen', null, 'Requests over time'), roomy: true, ...graph('requests', 'joined') },
    { name: 'errors', head: 'Errors', num: true, says: 'share of the responses to clients that were 5xx or broken', sort: (r) => (r.unit.responses ? r.r.erring : null),
      cell: (r) => (r.unit.responses ? percent(r.r.responses > 0 ? r.r.erring : 0) : none), tone: (r) => (!(r.r.errors > 0) ? 'zero' : r.r.erring >= 0.05 ? 'hurts' : 'minds') },
    { name: 'saved', head: 'Saved', num: true, says: 'share of requests that were answered without a call of their own, or would be without observe mode', sort: (r) => (r.unit.observed ? r.r.wouldSave : r.r.saved), cell: (r) => (r.unit.observed ? `would be ${percent(r.r.wouldSave)}` : percent(r.r.saved)) },
    { name: 'calls', head: 'Calls/s', num: true, says: 'of the source, including refreshes', sort: (r) => r.r.calls, cell: (r) => rate(r.r.calls), tone: (r) => loud(r.r.calls) },
    { name: 'calls-line', head: h('span.unseen', null, 'Calls over time'), roomy: true, ...graph('calls', 'calls') },
    { name: 'failed', head: 'Failed/s', num: true, says: 'calls to the source that failed', sort: (r) => r.r.failed, cell: (r) => rate(r.r.failed), tone: (r) => bad(r.r.failed, r) },
    { name: 'refused', head: 'Refused/s', num: true, says: 'requests, by a limit of weir', sort: (r) => r.r.refused, cell: (r) => rate(r.r.refused), tone: (r) => bad(r.r.refused, r) },
    { name: 'p99', head: 'p99', num: true, says: 'of requests, or of calls to the source if requests are not timed', sort: (r) => r.r.p99,
      cell: (r) => (Number.isFinite(r.r.p99) ? duration(r.r.p99) : none) },
    { name: 'flights', head: 'In flight', num: true, says: 'calls that new requests could join', sort: (r) => r.unit.flights, cell: (r) => count(r.unit.flights), tone: (r) => loud(r.unit.flights) },
  ];
}
