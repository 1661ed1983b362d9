// One chart over time: uPlot, with a legend that shows the values at the cursor, and a
// label in words for screen readers.
import { h, text, attr } from './dom.js';
import { age, clock, none } from './format.js';
import { color, onTheme } from './theme.js';

const height = 190;
const font = () => '11px ' + getComputedStyle(document.body).fontFamily;

// spec: {title, hint, stacked, lines: [{name, label, color, dash, fill, width, of}],
// value(x): text, marks(splits): texts, right: {lines, value, marks}, nothing}.
// of(series) is the column of a line; by default that of its name. A line with
// right: true has a separate axis.
export class Chart {
  constructor(spec) {
    this.spec = spec;
    this.lines = spec.lines;
    this.time = h('time', null, '');
    this.plot = h('div.plot');
    this.none = h('p.nothing', { hidden: true }, h('span', null, spec.nothing));
    this.values = new Map();
    this.rare = new Map(); // entries of the legend that are shown once they have a value
    this.el = h('figure.chart.panel.live', null,
      h('figcaption', null, h('h2', null, spec.title), spec.hint ? h('span.hint', null, spec.hint) : null, this.time),
      this.plot, this.legend());
    this.plot.append(this.none);
    this.sizes = new ResizeObserver(() => this.resize());
    this.sizes.observe(this.plot);
    this.offTheme = onTheme(() => this.build());
  }

  legend() {
    return h('ul.legend', null, this.lines.map((l) => {
      const value = h('b', null, none);
      this.values.set(l.name, value);
      const key = h(this.spec.stacked ? 'i.swatch' : 'i.stroke' + (l.dash ? (l.dash[0] < 3 ? '.dotted' : '.dashed') : ''), { 'aria-hidden': 'true' });
      if (this.spec.stacked) key.style.background = `var(${l.color})`;
      else key.style.borderTopColor = `var(${l.color})`;
      const li = h('li', { title: l.says, hidden: Boolean(l.rare) }, key, l.label, ' ', value);
      if (l.rare) this.rare.set(l.name, li);
      return li;
    }));
  }

  // Draws the last range seconds of series, up to end.
  draw(series, range, end) {
    const from = end - range - 1;
    let first = 0;
    while (first < series.t.length && series.t[first] < from) first++;
    this.range = [end - range, end];
    this.t = series.t.slice(first);
    this.raw = this.lines.map((l) => {
      const c = l.of ? l.of(series) : series[l.name];
      return c ? c.slice(first) : new Array(this.t.length).fill(null);
    });
    attr(this.none, 'hidden', this.raw.some((c) => c.some((v) => v)));
    const data = [this.t, ...(this.spec.stacked ? stack(this.raw) : this.raw)];
    if (!this.u) this.build(data);
    else this.u.setData(data);
    this.tell();
  }

  build(data) {
    const width = this.plot.clientWidth;
    if (!data) data = this.u && this.u.data;
    if (!data || width < 40) return;
    if (this.u) this.u.destroy();
    this.u = new uPlot(this.options(width), data, this.plot);
    const canvas = this.u.ctx.canvas;
    canvas.setAttribute('role', 'img');
    this.canvas = canvas;
    this.tell();
  }

  options(width) {
    const right = this.lines.some((l) => l.right);
    const axis = (side, scale, marks) => ({
      scale, side, font: font(), size: 52, gap: 4, space: 34,
      stroke: color('--ink-3'),
      grid: { show: side !== 1, stroke: color('--grid'), width: 1 },
      ticks: { show: false },
      values: (_, splits) => (marks || ((s) => s.map(this.spec.value)))(splits),
    });
    const up = (_, low, high) => [0, high > 0 ? high * 1.06 : 1];
    return {
      width, height,
      padding: [8, right ? 4 : 18, 0, 0],
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false, setScale: false }, points: { size: 6, show: this.spec.stacked ? false : undefined },
        sync: { key: 'weir', setSeries: false } },
      scales: { x: { time: true, range: () => this.range }, y: { range: up }, right: { range: up } },
      axes: [
        { font: font(), size: 24, gap: 4, space: (u) => (u.width < 420 && this.range[1] - this.range[0] > 120 ? 46 : 74), stroke: color('--ink-3'),
          grid: { show: false }, ticks: { show: true, stroke: color('--line-strong'), size: 4, width: 1 },
          values: (_, splits, __, ___, step) => splits.map((t) => clock(t, step < 60)) },
        axis(3, 'y', this.spec.marks),
        ...(right ? [axis(1, 'right', this.spec.rightMarks)] : []),
      ],
      drawOrder: this.spec.stacked ? ['series', 'axes'] : ['axes', 'series'],
      series: [{}, ...(this.spec.stacked ? this.lines.toReversed() : this.lines).map((l) => this.line(l))],
      hooks: { setCursor: [() => this.tell()] },
    };
  }

  line(l) {
    const c = color(l.color);
    const fill = this.spec.stacked ? c : l.fill ? alpha(c, 0.16) : undefined;
    return { scale: l.right ? 'right' : 'y', stroke: c, fill, width: this.spec.stacked ? 0 : l.width || 1.6,
      dash: l.dash, points: this.spec.stacked ? { show: false } : { show: true, size: 4, fill: c, filter: alone }, spanGaps: false };
  }

  resize() {
    const width = this.plot.clientWidth;
    if (this.u && width > 40 && width !== this.u.width) this.u.setSize({ width, height });
    else if (!this.u && this.t) this.build([this.t, ...(this.spec.stacked ? stack(this.raw) : this.raw)]);
  }

  // Shows the values at the cursor, or the last ones.
  tell() {
    if (!this.t) return;
    const at = this.u && this.u.cursor.idx;
    const hovered = at !== null && at !== undefined && this.u.cursor.left >= 0;
    const i = hovered ? at : this.t.length - 1;
    text(this.time, hovered && this.t[i] ? clock(this.t[i]) : '\u00a0');
    const said = this.lines.map((l, n) => {
      const v = this.raw[n][i];
      const words = v === null || v === undefined ? none : (l.value || this.spec.value)(v);
      text(this.values.get(l.name), words);
      if (l.rare && v > 0) attr(this.rare.get(l.name), 'hidden', false);
      return l.label + ' ' + words;
    });
    if (this.canvas) attr(this.canvas, 'aria-label', `${this.spec.title}, over ${age(this.range[1] - this.range[0])}. ${hovered ? 'At ' + clock(this.t[i]) : 'Now'}: ${said.join(', ')}.`);
  }

  destroy() {
    this.offTheme();
    this.sizes.disconnect();
    if (this.u) this.u.destroy();
  }
}

// The values of a line without a neighbor: no stroke leads to them, so only a point
// shows them.
function alone(u, line) {
  const v = u.data[line];
  const none = (i) => v[i] === null || v[i] === undefined;
  return v.map((_, i) => i).filter((i) => !none(i) && none(i - 1) && none(i + 1));
}

// Each line on top of the sum of those before it. The topmost comes first, because the
// ones below are painted over it. A line that is always zero is left out: it would
// show as a seam.
function stack(columns) {
  const sum = new Array(columns[0].length).fill(0);
  return columns.map((c) => (c.some((v) => v) ? c.map((v, i) => (sum[i] += v || 0)) : c.map(() => null))).toReversed();
}

// c, which is #rrggbb, with an opacity.
function alpha(c, a) {
  const n = parseInt(c.slice(1), 16);
  return `rgba(${n >> 16}, ${(n >> 8) & 255}, ${n & 255}, ${a})`;
}
