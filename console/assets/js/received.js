// What clients received: the first thing on a page. Its parts add up to its headline, and
// /metrics counts the same in weir_responses_total.
import { h, panel, text, attr, swap } from './dom.js';
import { shares } from './parts.js';
import { spark } from './spark.js';
import { classesOf, isRPC, share, refusals } from './rates.js';
import { rate, percent, duration, perSecond, count } from './format.js';

export class Received {
  constructor() {
    this.all = figure('Responses', 'per second; mean of the last 10 seconds', 'p50');
    this.errors = figure('Errors', '5xx and broken, or server errors, as a share of the responses', 'failed');
    this.times = figure('p50 / p99', 'of requests, to the end of the response', 'p99');
    this.bar = h('div.mix-bar.thick', { 'aria-hidden': 'true' });
    this.key = h('ul.shares');
    this.note = h('p.hint.gap');
    this.el = panel('What clients received', 'mean of the last 10 seconds', h('div.figures', null, this.all.el, this.errors.el, this.times.el), this.bar, this.key, this.note);
    this.el.classList.add('live', 'received');
  }

  // r are the rates of series; units are those that they belong to.
  draw(r, series, range, store, units) {
    const classes = classesOf(units);
    const code = (http) => (isRPC(units) ? '' : ` (${http})`);
    const line = (name) => (series[name] || []).slice(-range / store.interval);
    const sum = (line5, line6) => line5.map((v, i) => (v === null ? null : v + (line6[i] || 0)));
    const since = units.reduce((n, u) => n + classes.reduce((m, c) => m + ((u.responses || {})[c.name] || 0), 0), 0);
    this.all.draw(rate(r.responses), '/s', count(since) + ' since the start', classes.map((c) => line(c.column)).reduce(sum));
    const level = r.erring >= 0.05 ? 'bad' : r.errors > 0 ? 'warn' : null;
    this.errors.draw(r.responses > 0 ? percent(r.erring) : percent(0), '', perSecond(r.errors), sum(line('http_5xx'), line('http_broken')), level);
    this.times.draw(duration(r.p50), ' / ' + duration(r.p99), 'to the end of the response', line('request_p99'));
    const refused = (...statuses) => refusals.filter((k) => statuses.includes(k.status) && r.kinds[k.name] > 0)
      .map((k) => `${perSecond(r.kinds[k.name])} ${k.status === 503 ? 'refused ' : ''}${k.by}${code(k.status)}`).join(', ');
    const notes = { '4xx': refused(429, 413), '5xx': refused(503) };
    const items = classes.filter((c) => !c.rare || r.received[c.name] > 0).map((c) => ({ ...c, value: r.received[c.name], note: notes[c.name] }));
    shares(this.bar, this.key, items, r.responses, (k) => perSecond(k.value), (k) => (r.responses > 0 ? percent(share(k.value, r.responses)) : percent(0)));
    attr(this.note, 'hidden', !(r.left > 0));
    text(this.note, `Not included: ${perSecond(r.left)} whose client left, or was too slow, before the end of the response.`);
  }
}

// One number with a line of its history.
function figure(name, says, color) {
  const big = h('p.big', null, '–');
  const note = h('p.note');
  const line = spark(color);
  const el = h('div.figure', { title: says, 'aria-label': name }, h('p.name', null, name), big, note, line);
  return { el, draw(value, unit, words, values, level) {
    swap(big, value + '|' + unit, () => [document.createTextNode(value), h('small', null, unit)]);
    text(note, words);
    attr(el, 'data-level', level);
    line.draw(values);
  } };
}
