// Arithmetic on series: columns of equal length with a point per second, null where
// there is no value. Every number of the console is defined here once, and /metrics counts
// the same.

// What clients received: each response is in one class.
export const classes = [
  { name: '1xx', column: 'http_1xx', label: '1xx', color: '--c-1xx', says: 'upgrades to another protocol', rare: true },
  { name: '2xx', column: 'http_2xx', label: '2xx', rpc: 'OK', color: '--c-2xx', says: 'success' },
  { name: '3xx', column: 'http_3xx', label: '3xx', color: '--c-3xx', says: 'redirects, and 304 for what the client has already' },
  { name: '4xx', column: 'http_4xx', label: '4xx', rpc: 'Client errors', color: '--c-4xx', says: 'the request was wrong, or one too many' },
  { name: '5xx', column: 'http_5xx', label: '5xx', rpc: 'Server errors', color: '--c-5xx', says: 'errors of the service or of weir' },
  { name: 'broken', column: 'http_broken', label: 'Broken', color: '--c-broken', says: 'responses that broke off, or did not come' },
];

// Whether units receive gRPC calls only. Guards receive neither these nor requests.
export const isRPC = (units) => (units || []).some((u) => u.kind === 'method') && units.every((u) => u.kind !== 'route');

// The classes as they are called for units.
export const classesOf = (units) => (isRPC(units) ? classes.map((c) => (c.rpc ? { ...c, label: c.rpc } : { ...c, rare: true })) : classes);

// How requests were answered without an error and without a call of their own.
export const kinds = [
  { name: 'hits', label: 'Hits', color: '--c-hits', says: 'found in memory, and fresh' },
  { name: 'stale', label: 'Stale', color: '--c-stale', says: 'served stale immediately, and refreshed in the background' },
  { name: 'negative', label: 'Known missing', color: '--c-negative', says: 'a remembered “not found”' },
  { name: 'failures', label: 'Known failing', color: '--c-failures', says: 'a remembered failure' },
  { name: 'joined', label: 'Joined', color: '--c-joined', says: 'waited for a call that was already in flight' },
  { name: 'validated', label: 'Validated', color: '--c-validated', says: 'the source confirmed that the stored response is current', asked: true },
  { name: 'fleet', label: 'Fleet', color: '--c-fleet', says: 'another instance had the value' },
];

// What has refused requests, and with which status. The columns refused and refused_client are
// sums, so a limit and a rate have what the others leave of them.
const sums = { refused: ['refused_budget', 'refused_paused', 'refused_unreachable'], refused_client: ['refused_client_budget'] };
export const refusals = [
  { name: 'refused', key: 'limit', status: 503, label: 'Refused by a limit', by: 'by a limit', color: '--c-refused', says: 'by a limit on concurrent calls: 503, or Unavailable' },
  { name: 'refused_budget', key: 'budget', status: 503, label: 'Over budget', by: 'by a budget', color: '--c-budget', rare: true, says: 'the budget of the upstream or the route is used up: 503' },
  { name: 'refused_paused', key: 'paused', status: 503, label: 'Paused by the source', by: 'because the source asked for a pause', color: '--c-stale', rare: true, says: 'the source has stated a limit or a pause, which weir obeys: 503' },
  { name: 'refused_unreachable', key: 'unreachable', status: 503, label: 'Limit unreachable', by: 'because a limit of the fleet is unreachable', color: '--c-broken', rare: true, says: 'a limit of the fleet could not be reached: 503' },
  { name: 'refused_client', key: 'client', status: 429, label: 'Over their rate', by: 'over their rate', color: '--c-requests', says: 'the client sent more than its rate allows: 429, or ResourceExhausted' },
  { name: 'refused_client_budget', key: 'client_budget', status: 429, label: 'Over their budget', by: 'over their budget', color: '--c-4xx', rare: true, says: 'the client has used up its own budget: 429' },
  { name: 'too_large', key: 'too_large', status: 413, label: 'Too large', by: 'too large for a budget', color: '--c-negative', rare: true, says: 'the request costs more than a limit or a budget allows at all: 413' },
].map((k) => ({ ...k, of: (s, i) => Math.max(0, (sums[k.name] || []).reduce((n, part) => n - at(s, part, i), at(s, k.name, i))) }));

// The other ways, so that the parts add up to all requests that have ended, except those
// whose clients had left.
export const rest = [
  { name: 'own', label: 'Own call', color: '--c-calls', says: 'a call to the source was made for it, and succeeded', of: (s, i) => others(s, i).own },
  { name: 'errors', label: 'Errors', color: '--c-failed', says: 'its call failed, or was answered with 500 or more', of: (s, i) => others(s, i).errors },
  ...refusals,
];

const at = (s, name, i) => (s[name] && s[name][i]) || 0;

// What became of the requests at point i that were not answered by a kind.
const others = (s, i) => ({ own: Math.max(0, at(s, 'missed', i) - at(s, 'missed_errors', i)), errors: at(s, 'missed_errors', i) + at(s, 'unanswered', i) });

// The column of one of kinds or rest.
export function columnOf(s, part) {
  if (!part.of) return s[part.name] || new Array(s.t.length).fill(null);
  return (s.requests || []).map((v, i) => (v === null ? null : part.of(s, i)));
}

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
    refused: m('refused'), refusedClient: m('refused_client'), tooLarge: m('too_large'), staleOnError: m('stale_on_error'),
    costSpent: m('cost_spent'), costAvoided: m('cost_avoided'), costRefused: m('cost_refused'),
    avoided: 0, ended: 0, kinds: {}, received: {}, responses: 0, left: m('http_left') };
  for (const c of classes) {
    r.received[c.name] = m(c.column);
    r.responses += r.received[c.name];
  }
  r.errors = r.received['5xx'] + r.received.broken;
  r.erring = share(r.errors, r.responses);
  for (const k of [...kinds, ...rest]) {
    r.kinds[k.name] = orZero(mean(columnOf({ t: [], ...series }, k), n));
    r.ended += r.kinds[k.name];
  }
  for (const k of kinds) if (!k.asked) r.avoided += r.kinds[k.name];
  r.saved = share(r.avoided, r.ended);
  r.wouldSave = share(m('observed'), r.ended); // without observe mode
  r.failing = share(r.failed, r.calls);
  r.refusing = share(r.refused, Math.max(r.requests, r.refused));
  r.overRate = share(r.refusedClient, Math.max(r.requests, r.refusedClient));
  return { ...r, ...quickness(series, of) };
}

// What is timed: requests if there is a route or a method among the units. If there are
// only Guards, whose hits are not timed, calls to the source.
export const timed = (units) => ((units || []).some((u) => u.kind !== 'guard') ? 'request' : 'call');

// Whether responses are counted, for one of the units at least.
export const counted = (units) => (units || []).some((u) => u.responses);

// The last quantiles of what is timed.
export function quickness(series, of = 'call') {
  return { of, p50: last(series[of + '_p50']), p99: last(series[of + '_p99']) };
}

// How many requests were answered without a call since the start, and how many have ended.
export const avoidedSince = (avoided) => kinds.reduce((sum, k) => sum + (k.asked ? 0 : avoided[k.name] || 0), 0);

export function endedSince(u) {
  if (u.kind === 'guard') return u.requests;
  return avoidedSince(u.avoided) + (u.avoided.validated || 0) + (u.missed || 0) + (u.unanswered || 0) + Object.values(u.refused).reduce((n, v) => n + v, 0);
}

// What units have cost since the start, nothing if none of them counts it. Money is known if
// all of them have a price in the same currency.
export function costSince(units) {
  const all = (units || []).map((u) => u.cost).filter(Boolean);
  if (!all.length) return null;
  const sum = (f) => all.reduce((n, c) => n + f(c), 0);
  const avoided = (c) => c.hits + c.joined + c.fleet;
  const currency = all.every((c) => c.price > 0 && c.currency === all[0].currency) ? all[0].currency : '';
  const money = (f) => (currency ? sum((c) => f(c) * c.price) : NaN);
  return {
    spent: sum((c) => c.spent), avoided: sum(avoided), refused: sum((c) => c.refused), currency,
    money: { spent: money((c) => c.spent), avoided: money(avoided), refused: money((c) => c.refused) },
  };
}

// Rates of counters, from two snapshots that are n seconds apart.
export function difference(now, then, seconds) {
  const out = {};
  for (const [k, v] of Object.entries(now || {})) {
    if (typeof v === 'number') out[k] = seconds > 0 ? Math.max(0, v - ((then || {})[k] || 0)) / seconds : NaN;
  }
  return out;
}
