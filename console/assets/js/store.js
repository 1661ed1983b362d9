// All data of the page: the last snapshot, and the series for the history that the server
// keeps. It is bounded: points beyond the history, and the series of removed units, are
// dropped.
const shortWindow = 11; // snapshots that are kept for rates of values without a series

export class Store {
  constructor() {
    this.hello = null;
    this.snapshot = null;
    this.incidents = []; // what needs attention, the worst first; the server decides that
    this.total = { t: [] };
    this.units = new Map();
    this.limits = new Map();
    this.recent = []; // the last snapshots, oldest first
    this.most = 600;
  }

  open(hello) {
    this.hello = hello;
    this.snapshot = hello.snapshot;
    this.incidents = hello.incidents || [];
    this.recent = [hello.snapshot];
    this.interval = (hello.interval_ns || 1e9) / 1e9;
    this.most = Math.max(2, Math.ceil((hello.history_ns || 600e9) / (hello.interval_ns || 1e9)));
    this.total = trim(columns(hello.total), this.most);
    this.units = series(hello.units, this.most);
    this.limits = series(hello.limits, this.most);
  }

  tick(tick) {
    this.setBack(tick.total && tick.total.t);
    this.snapshot = tick.snapshot;
    this.incidents = tick.incidents || [];
    this.recent.push(tick.snapshot);
    if (this.recent.length > shortWindow) this.recent.shift();
    push(this.total, tick.total || {}, this.most);
    advance(this.units, tick.units || {}, this.most);
    advance(this.limits, tick.limits || {}, this.most);
  }

  // When the clock is set back, times must not run backwards: earlier points move along,
  // as on the server, and stay equally long ago. Series from earlier snapshots start
  // again.
  setBack(t) {
    const by = t - (this.interval || 1) - this.end();
    if (!(t < this.end())) return;
    for (const s of [this.total, ...this.units.values(), ...this.limits.values()]) s.t = s.t.map((x) => x + by);
    this.recent = [];
  }

  unit(name) {
    return this.snapshot ? (this.snapshot.units || []).find((u) => u.name === name) : undefined;
  }

  series(name) {
    return this.units.get(name) || { t: [] };
  }

  // The time of the last point, in Unix seconds.
  end() {
    const t = this.total.t;
    return t.length ? t[t.length - 1] : Date.parse(this.snapshot && this.snapshot.at) / 1000;
  }

  // The snapshot at the beginning of the short window, and how long ago it was.
  before() {
    const first = this.recent[0];
    return { snapshot: first, seconds: (Date.parse(this.snapshot.at) - Date.parse(first.at)) / 1000 };
  }
}

function columns(s) {
  const out = { t: [] };
  for (const [name, values] of Object.entries(s || {})) out[name] = Array.from(values || []);
  return out;
}

function series(all, most) {
  return new Map(Object.entries(all || {}).map(([name, s]) => [name, trim(columns(s), most)]));
}

function trim(s, most) {
  for (const c of Object.values(s)) if (c.length > most) c.splice(0, c.length - most);
  return s;
}

// Adds a point to a series. A column that is new, or missing in the point, gets null.
export function push(s, point, most) {
  const before = s.t.length;
  for (const name of Object.keys(point)) {
    if (!s[name]) s[name] = new Array(before).fill(null);
  }
  for (const [name, c] of Object.entries(s)) {
    c.push(Number.isFinite(point[name]) ? point[name] : null);
    if (c.length > most) c.splice(0, c.length - most);
  }
}

function advance(known, points, most) {
  for (const name of [...known.keys()]) if (!(name in points)) known.delete(name);
  for (const [name, p] of Object.entries(points)) {
    if (!known.has(name)) known.set(name, { t: [] });
    push(known.get(name), p, most);
  }
}
