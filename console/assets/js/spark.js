// A line without axes, for cells and tiles. Its value is shown next to it, so it is
// hidden from screen readers.
import { svg, attr } from './dom.js';

const width = 100;
const height = 24;

export function spark(color) {
  const area = svg('path', { class: 'area' });
  const line = svg('path', {});
  const e = svg('svg', { class: 'spark', viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none', 'aria-hidden': 'true', 'data-color': color }, area, line);
  e.draw = (values) => {
    const d = path(thin(values || [], 60));
    attr(line, 'd', d);
    attr(area, 'd', d && d + `L${width} ${height}L0 ${height}Z`);
  };
  return e;
}

// At most n values: each the mean of several, so that no peak hides the rest.
function thin(values, n) {
  if (values.length <= n) return values;
  const size = values.length / n;
  const out = [];
  for (let i = 0; i < n; i++) {
    const part = values.slice(Math.floor(i * size), Math.floor((i + 1) * size)).filter((v) => v !== null);
    out.push(part.length ? part.reduce((a, b) => a + b) / part.length : null);
  }
  return out;
}

function path(values) {
  if (values.length < 2 || !values.some((v) => v !== null)) return '';
  const top = Math.max(...values.map((v) => v || 0));
  const y = (v) => (top > 0 ? height - 1 - ((v || 0) / top) * (height - 3) : height - 1);
  return values.map((v, i) => (i ? 'L' : 'M') + ((i / (values.length - 1)) * width).toFixed(1) + ' ' + y(v).toFixed(1)).join('');
}
