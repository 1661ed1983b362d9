// Arithmetic on series: columns of equal length with a point per second, null where
// there is no value.

export const kinds = [
  { name: 'hits', label: 'Hits', color: '--c-hits', says: 'found in memory, and fresh' },
  { name: 'stale', label: 'Stale', color: '--c-stale', says: 'served stale at once, and refreshed in the background' },
  { name: 'negative', label: 'Known missing', color: '--c-negative', says: 'a remembered “not found”' },
  { name: 'failures', label: 'Known failing', color: '--c-failures', says: 'a remembered failure' },
  { name: 'joined', label: 'Joined', color: '--c-joined', says: 'waited for a call that was already in flight' },
  { name: 'validated', label: 'Validated', color: '--c-validated', says: 'the source confirmed that the stored response is current', asked: true },
  { name: 'fleet', label: 'Fleet', color: '--c-fleet', says: 'another instance had the value' },
];

// The mean of the values in the last n points of a column; NaN if there are none.
export function mean(column, n) {
  let sum = 0;
  let have = 0;
  for (let i = Math.max(0, (column || []).length - n); i < (column || []).length; i++) {
    if (column[i] !== null && column[i] !== undefined) {
      sum += column[i];
      have++;
    }
  }
  return have ? sum / have : NaN;
}

// The last value in the last n points of a column; NaN if there is none.
export function last(column, n = 10) {
  const length = (column || []).length;
  for (let i = length - 1; i >= Math.max(0, length - n); i--) {
    if (column[i] !== null && column[i] !== undefined) return column[i];
  }
  return NaN;
}

const orZero = (x) => (Number.isFinite(x) ? x : 0);
export const share = (part, all) => (all > 0 ? Math.min(1, part / all) : NaN);

// How long "now" is, in seconds. Everything on a page is from the same time span,
// because its numbers would otherwise contradict each other.
const present = 10;
export const pointsOf = (store) => Math.max(2, Math.round(present / (store.interval || 1)));

// The current rates of a unit: the means of the last n points. of is what is timed, as
// for quickness.
export function now(series, n, of) {
  const m = (name) => orZero(mean(series[name], n));
  const r = { requests: m('requests'), calls: m('calls'), refreshes: m('refreshes'), failed: m('failed'),
    refused: m('refused'), staleOnError: m('stale_on_error'), avoided: 0, kinds: {} };
  for (const k of kinds) {
    r.kinds[k.name] = m(k.name);
    if (!k.asked) r.avoided += r.kinds[k.name];
  }
  r.saved = share(r.avoided, r.avoided + r.calls);
  r.failing = share(r.failed, r.calls);
  r.refusing = share(r.refused, Math.max(r.requests, r.refused));
  return { ...r, ...quickness(series, of) };
}

// What is timed: requests if there is a route among the units. If there are only
// Guards, whose hits are not timed, calls of the source.
export const timed = (units) => ((units || []).some((u) => u.kind === 'route') ? 'request' : 'call');

// The last quantiles of what is timed.
export function quickness(series, of = 'call') {
  return { of, p50: last(series[of + '_p50']), p99: last(series[of + '_p99']) };
}

// How many calls of the source were avoided since the start.
export const avoidedSince = (avoided) => kinds.reduce((sum, k) => sum + (k.asked ? 0 : avoided[k.name] || 0), 0);

// Calls whose result was the response to a request. No request waits for a refresh,
// and validated responses have a separate kind.
export const own = (calls, refreshes, validated) => Math.max(0, calls - refreshes - validated);

// Rates of counters, from two snapshots that are n seconds apart.
export function difference(now, then, seconds) {
  const out = {};
  for (const [k, v] of Object.entries(now || {})) {
    if (typeof v === 'number') out[k] = seconds > 0 ? Math.max(0, v - ((then || {})[k] || 0)) / seconds : NaN;
  }
  return out;
}
