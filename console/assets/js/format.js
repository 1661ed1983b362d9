// Formats numbers for people. Nothing here depends on the page.
const thin = '\u202f'; // between a number and its unit, where no line breaks

const known = (x) => typeof x === 'number' && Number.isFinite(x);
export const none = '–';

// At most three significant digits.
function three(x) {
  const a = Math.abs(x);
  if (a === 0) return '0';
  if (a >= 99.95) return x.toFixed(0);
  if (a >= 9.995) return x.toFixed(1).replace(/\.0$/, '');
  if (a >= 0.0095) return x.toFixed(2).replace(/\.?0+$/, '');
  return x.toPrecision(1);
}

const steps = [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k']];

// 0.25, 12.5, 1.23k, 45.6M.
export function si(x) {
  if (!known(x)) return none;
  for (const [size, letter] of steps) {
    if (Math.abs(x) >= size * 0.9995) return three(x / size) + letter;
  }
  return three(x);
}

// A rate per second. A rate below one in a hundred seconds is shown as < 0.01.
export function rate(x) {
  if (!known(x)) return none;
  if (x > 0 && x < 0.01) return '<' + thin + '0.01';
  return si(x);
}

export const perSecond = (x) => (known(x) ? rate(x) + '/s' : none);

// 12,345.
export function count(n) {
  return known(n) ? Math.round(n).toString().replace(/\B(?=(\d{3})+$)/g, ',') : none;
}

// 1,234.50 EUR.
export function money(x, currency) {
  if (!known(x)) return none;
  const s = x > 0 && x < 0.01 ? '<' + thin + '0.01' : x.toFixed(2).replace(/\B(?=(\d{3})+\.)/g, ',');
  return s + thin + currency;
}

// A share from 0 to 1. It shows 100 % and 0 % only for exactly 1 and 0.
export function percent(x) {
  if (!known(x)) return none;
  const p = x * 100;
  let s;
  if (p === 0 || p === 100) s = p.toFixed(0);
  else if (p >= 99.9) s = (Math.floor(p * 100) / 100).toFixed(2);
  else if (p >= 99) s = (Math.floor(p * 10) / 10).toFixed(1);
  else if (p < 0.1) return '<' + thin + '0.1' + thin + '%';
  else s = p >= 10 ? p.toFixed(p >= 90 ? 1 : 0) : p.toFixed(1);
  return s + thin + '%';
}

// A duration in seconds: 870 µs, 12.3 ms, 1.24 s, then as age.
export function duration(s) {
  if (!known(s)) return none;
  if (s === 0) return '0' + thin + 's';
  if (s < 0.9995e-6) return three(s * 1e9) + thin + 'ns';
  if (s < 0.9995e-3) return three(s * 1e6) + thin + 'µs';
  if (s < 0.9995) return three(s * 1e3) + thin + 'ms';
  if (s < 99.95) return three(s) + thin + 's';
  return age(s);
}

export const nanos = (ns) => duration(known(ns) ? ns / 1e9 : NaN);

// How long ago, in at most two units: 45 s, 3 min, 2 h 10 min, 3 d 4 h.
export function age(s) {
  if (!known(s)) return none;
  s = Math.max(0, Math.round(s));
  if (s < 120) return s + thin + 's';
  const m = Math.floor(s / 60);
  if (m < 60) return m + thin + 'min';
  const hours = Math.floor(m / 60);
  if (hours < 48) return hours + thin + 'h' + (m % 60 ? ' ' + (m % 60) + thin + 'min' : '');
  const d = Math.floor(hours / 24);
  return d + thin + 'd' + (hours % 24 ? ' ' + (hours % 24) + thin + 'h' : '');
}

export function bytes(n) {
  if (!known(n)) return none;
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let i = 0;
  while (Math.abs(n) >= 1023.5 && i < units.length - 1) {
    n /= 1024;
    i++;
  }
  return three(n) + thin + units[i];
}

const two = (n) => String(n).padStart(2, '0');

// The time of day, from Unix seconds.
export function clock(t, seconds = true) {
  const d = new Date(t * 1000);
  return two(d.getHours()) + ':' + two(d.getMinutes()) + (seconds ? ':' + two(d.getSeconds()) : '');
}

// A date and time, from a Go time in JSON; empty for the zero time.
export function instant(text) {
  const d = new Date(text);
  if (!text || Number.isNaN(d.getTime()) || d.getFullYear() < 1970) return '';
  return d.getFullYear() + '-' + two(d.getMonth() + 1) + '-' + two(d.getDate()) + ' ' + clock(d.getTime() / 1000);
}

// Seconds between two times in JSON; NaN if one is missing.
export const between = (from, to) => (new Date(to) - new Date(from)) / 1000;

// The marks of an axis, all in the unit that fits the largest.
export function axisDurations(marks) {
  const most = Math.max(...marks.map(Math.abs), 0);
  const [size, unit] = most >= 1 ? [1, 's'] : most >= 1e-3 ? [1e3, 'ms'] : [1e6, 'µs'];
  return marks.map((m) => (m === 0 ? '0' : three(m * size) + thin + unit));
}

// One thing, 2 things.
export const many = (n, one, more = one + 's') => count(n) + ' ' + (n === 1 ? one : more);

// a, b and c.
export function words(list, last = 'and') {
  if (list.length < 2) return list.join('');
  return list.slice(0, -1).join(', ') + ' ' + last + ' ' + list[list.length - 1];
}
