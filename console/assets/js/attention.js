// The incidents that an operator should see first. They are rules over the last seconds.
// One incident is one finding, however many routes it affects: a service that is down
// fails calls, ejects servers, fills queues and refuses requests, and all of that is the
// same. Each finding keeps its key while it lasts, so that it is announced once.
import { now as rates, pointsOf, mean, last, counted, isRPC } from './rates.js';
import { percent, perSecond, many, age, nanos, words } from './format.js';

const most = 6; // times the length of now: a minute
const few = 5; // calls: fewer are not significant
const named = 3; // names in a sentence
const longest = 300; // characters of an error in a sentence
const order = { bad: 0, warn: 1, note: 2 };

// attention returns [{key, level, subject, units, sources, badge, text, next, page}], the
// worst first.
export function attention(store) {
  const s = store.snapshot;
  if (!s) return [];
  const found = [...processes(s), ...tiers(s), ...sources(store, s), ...clients(store, s), ...apart(s), ...queues(s.queues || [])];
  return found.sort((a, b) => order[a.level] - order[b.level]);
}

// The findings of one unit.
export const attentionOf = (all, u) => all.filter((f) => (f.units || []).includes(u.name));

// The findings of everything behind weir, by what it depends on: an upstream, a limiter
// that Guards share, or a Guard's own source.
function sources(store, s) {
  const groups = new Map();
  const group = (key, name) => {
    if (!groups.has(key)) groups.set(key, { key, name, units: [], servers: [], limits: [] });
    return groups.get(key);
  };
  for (const u of s.units || []) {
    const name = u.upstream || u.limit;
    const g = name ? group('of/' + name, name) : group('unit/' + u.name, u.name);
    g.units.push(u);
  }
  for (const v of s.servers || []) group('of/' + v.upstream, v.upstream).servers.push(v);
  for (const l of s.limits || []) group('of/' + l.name, l.name).limits.push(l);
  const points = pointsOf(store);
  const found = [];
  const down = [];
  for (const g of groups.values()) {
    const state = look(g, store, points);
    if (state.down) down.push([g, state]);
    else found.push(...troubles(g, state, points));
  }
  if (down.length > 1) found.push(severalDown(down));
  else if (down.length === 1) found.push(oneDown(...down[0]));
  return found;
}

// What is known about a group now.
function look(g, store, points) {
  const state = { calls: 0, failed: 0, failures: 0, stale: 0, refused: 0, requests: 0, errors: 0, stuck: 0, failing: [], refusing: [], when: '', since: NaN };
  for (const u of g.units) {
    const series = store.series(u.name);
    const r = rates(series, points);
    const f = failures(r, series, points, store.interval || 1);
    for (const k of ['calls', 'failed']) state[k] += f[k];
    state.failures += f.failures;
    state.stale += r.staleOnError;
    state.refused += r.refused;
    state.requests += r.requests;
    state.errors += r.errors;
    state.stuck += u.stuck;
    if (f.failing >= 0.5 && f.failures >= 2) {
      state.failing.push(u.name);
      state.when = state.when || f.when;
      const since = began(series);
      if (!(state.since >= since)) state.since = since;
    }
    if (r.refused * points >= 2) state.refusing.push(u.name);
  }
  state.responses = rates(store.total, points).responses; // of all routes, as in the page's headline
  state.out = g.servers.filter((v) => v.ejected || !v.healthy);
  state.allOut = g.servers.length > 0 && state.out.length === g.servers.length;
  const share = state.calls > 0 ? state.failed / state.calls : 0;
  state.share = share;
  state.down = state.allOut || (state.failing.length > 0 && (share >= 0.5 || g.units.length === 1));
  for (const l of g.limits) {
    const series = store.limits.get(l.name) || { t: [] };
    const recent = (series.queued || []).slice(-points);
    if (recent.length >= Math.min(5, points) && recent.every((q) => q > 0) && l.queued > 0) state.queue = { limit: l, length: Math.round(mean(series.queued, points)) };
    if (l.overloaded) state.overloaded = l;
  }
  return state;
}

// For how many seconds most calls have failed, without a pause.
function began(series) {
  const calls = series.calls || [];
  const failed = series.failed || [];
  let start = NaN;
  for (let i = calls.length - 1; i >= 0; i--) {
    if (!(calls[i] > 0)) continue;
    if (failed[i] / calls[i] < 0.5) break;
    start = series.t[i];
  }
  return Number.isFinite(start) ? series.t[series.t.length - 1] - start : NaN;
}

// The recent failures. With few calls, the time span is extended: a source that is
// polled every ten seconds may be down as well.
function failures(r, series, points, interval) {
  const length = (series.t || []).length;
  let n = points;
  while (r.calls * Math.min(n, length) < few && n < points * most) {
    n += points;
    r = rates(series, n);
  }
  return { ...r, failures: r.failed * Math.min(n, length), when: n === points ? 'fail' : 'failed in the last ' + age(n * interval) };
}

const namesOf = (units) => units.map((u) => u.name);

// The finding of a group that is down: the calls fail, or no server can be used.
function oneDown(g, s) {
  const servers = g.servers.length > 0;
  const what = servers && s.failing.length === 0 ? noServer(g) : `${s.share >= 0.9995 ? 'all' : percent(s.share) + ' of'} calls of the source ${s.when || 'fail'}`;
  const out = servers && s.failing.length > 0 && s.out.length ? `, ${s.out.length === 1 && g.servers.length === 1 ? 'and its only server is ejected or fails its checks' : `and ${s.out.length} of ${g.servers.length} servers are ejected or fail their checks`}` : '';
  const since = s.since > 20 ? `, for ${age(s.since)}` : '';
  return {
    key: g.key + '/down', level: 'bad', subject: g.name, units: namesOf(g.units), sources: [g.name], badge: 'source failing',
    text: `${what}${since}${out}; ${instead(s)}.`, next: nextOf(g, s),
  };
}

const noServer = (g) => (g.servers.length === 1 ? 'its only server is ejected or fails its checks' : `all ${g.servers.length} servers are ejected or fail their checks`);

function severalDown(down) {
  const names = down.map(([g]) => g.name).sort();
  const shown = names.length > named ? [...names.slice(0, named), `${names.length - named} more`] : names;
  const sum = (k) => down.reduce((n, [, s]) => n + s[k], 0);
  return {
    key: 'down', level: 'bad', subject: 'Sources', units: down.flatMap(([g]) => namesOf(g.units)), sources: down.map(([g]) => g.name), badge: 'source failing',
    text: `${down.length} are down at once, ${words(shown)}; ${instead({ stale: sum('stale'), errors: sum('errors'), responses: down[0][1].responses })}.`,
    next: 'Look first at what they share: a host, a network, DNS, or a database. Then check each of them from this machine.',
  };
}

// What clients get meanwhile.
function instead(s) {
  const stale = s.stale > 0 ? `stale responses are served instead, ${perSecond(s.stale)}` : '';
  const errors = s.responses > 0 && s.errors > 0 ? `clients get errors, ${perSecond(s.errors)}, which is ${percent(Math.min(1, s.errors / s.responses))} of all responses` : '';
  return [errors, stale].filter(Boolean).join(', and ') || 'there is no stale response to serve instead';
}

function nextOf(g, s) {
  if (!g.servers.length) return 'Check the source itself; the error of a load is in the log of this program.';
  const one = (s.out[0] || g.servers[0]).url;
  return `Check ${g.servers.length === 1 ? one : `the servers, such as ${one},`} from this machine: “weir proxy check --connect” with this configuration, and their own log. weir tries them again by itself.`;
}

// The findings of a group that is not down, as one.
function troubles(g, s, points) {
  const found = [];
  const say = (level, what, badge, text, next) => found.push({ key: g.key + '/' + what, level, subject: g.name, units: namesOf(g.units), sources: [g.name], badge, text, next });
  if (s.stuck > 0) {
    say('bad', 'stuck', 'stuck', `${many(s.stuck, 'call')} of the source ${s.stuck === 1 ? 'is' : 'are'} stuck: abandoned long ago, but still running.`,
      'Find the call in a goroutine profile, and give it a timeout.');
  }
  const refusing = s.requests > 0 ? s.refused / Math.max(s.requests, s.refused) : 0;
  const queued = s.queue ? `; ${many(s.queue.length, 'call')} ${s.queue.length === 1 ? 'is' : 'are'} queued${waitOf(s.queue.limit)}` : '';
  if (s.refusing.length && refusing >= 0.005) {
    say(refusing >= 0.1 ? 'bad' : 'warn', 'refused', 'refusing', `${percent(refusing)} of requests are refused${isRPC(g.units) ? '' : ' with 503'} because the limit is reached, ${perSecond(s.refused)}${queued}.`,
      'Is there more traffic, or is the source slower? The chart of the limit shows it against the latency. Raise the limit only if the source has room.');
  } else if (s.queue) {
    say('warn', 'queue', 'standing queue', `a queue of ${many(s.queue.length, 'call')} is not draining${waitOf(s.queue.limit)}.`,
      'If it lasts, requests will be refused. Is there more traffic, or is the source slower?');
  } else if (s.overloaded) {
    say('warn', 'overloaded', 'overloaded', 'the source is slower than it should be, so the limit is kept low.', 'Look at the latency of the source: the limit rises again with it.');
  }
  if (s.failing.length) {
    say('bad', 'failing', 'source failing', `most calls of ${words(s.failing.slice(0, named))} ${s.when}; ${instead(s)}.`, nextOf(g, s));
  } else if (s.out.length) {
    say('warn', 'servers', 'servers out', `${s.out.length} of ${g.servers.length} servers ${s.out.length === 1 ? 'is ejected or fails its checks' : 'are ejected or fail their checks'}; the others take its calls.`, nextOf(g, s));
  } else if (s.share >= 0.05 && s.failures >= 3) {
    say('warn', 'failing', 'calls fail', `${percent(s.share)} of calls of the source fail; ${instead(s)}.`, isRPC(g.units) ? 'The traces of its executions have the codes as error.type.' : 'The access log has a line for each failed request, with the cause.');
  } else if (s.stale > 0 && !found.length) {
    say('warn', 'stale', 'stale on error', `stale responses are served instead of errors or long waits, ${perSecond(s.stale)}.`, 'Look at the failures and the latency of the source.');
  }
  return found;
}

const waitOf = (l) => (l.limit > 0 && l.held_ns > 0 && l.kind !== 'rate' ? ', which means a wait of about ' + nanos((l.queued / l.limit) * l.held_ns) : '');

// What concerns clients, and not the source: rates that they exceed, and errors that no
// other finding explains.
function clients(store, s) {
  const points = pointsOf(store);
  const over = [];
  let most429 = 0;
  for (const u of s.units || []) {
    const r = rates(store.series(u.name), points);
    if (r.refusedClient * points < 2 || r.overRate < 0.005) continue;
    over.push(u.name);
    most429 += r.refusedClient;
  }
  const found = [];
  if (over.length) {
    found.push({ key: 'clients/rate', level: 'note', subject: over.length === 1 ? over[0] : 'Clients', units: over, badge: 'clients over rate',
      text: `clients that exceed their rate get ${isRPC(s.units) ? 'ResourceExhausted' : '429'}, ${perSecond(most429)}${over.length > 1 ? `, on ${words(over.slice(0, named))}` : ''}. Others are not affected.`,
      next: 'Nothing, unless the rate is too low for your clients.' });
  }
  const all = rates(store.total, points);
  if (counted(s.units) && all.erring >= 0.05 && all.errors * points >= 3 && !(s.units || []).some((u) => rates(store.series(u.name), points).failed > 0 || rates(store.series(u.name), points).refused > 0)) {
    found.push({ key: 'clients/errors', level: 'bad', subject: 'Clients', units: [], badge: 'errors',
      text: `${percent(all.erring)} of the responses are errors, ${perSecond(all.errors)}.`, next: 'The access log has a line for each of them, with the cause.' });
  }
  return found;
}

// Requests that share nothing because of fields that may not matter. The server writes the
// sentences, for "weir top" too.
const apart = (s) => (s.units || []).filter((u) => u.apart).map((u) => ({
  key: 'unit/' + u.name + '/apart', level: 'note', subject: u.name, units: [u.name], badge: 'kept apart', text: u.apart.text, next: u.apart.next,
}));

// The badge of a unit without findings. r are its rates.
export function calm(u, r) {
  const busy = r.requests > 0 || r.calls > 0 || r.refused > 0 || u.flights > 0 || u.running > 0;
  return busy ? { level: 'good', badge: 'healthy' } : { level: 'plain', badge: 'idle' };
}

function tiers(s) {
  if (!s.tier || !s.tier.open) return [];
  const pending = s.tier.pending > 0 ? ` ${many(s.tier.pending, 'invalidation')} will be sent again until it has them.` : '';
  return [{ key: 'tier', level: 'warn', subject: 'Fleet', badge: 'store unreachable', page: '#/fleet',
    text: `the shared store does not respond: this instance works independently until it does.${pending}`, next: 'Check Redis, and the network to it. weir tries it again by itself.' }];
}

function processes(s) {
  const state = s.process && s.process.state;
  if (!state || state === 'ready') return [];
  return [{ key: 'process', level: 'warn', subject: 'Process', badge: 'not ready', text: `/readyz answers 503: ${state.length > longest ? state.slice(0, longest) + '…' : state + '.'}`,
    next: state.length > longest ? 'Read all of it at /readyz, or in the log.' : '' }];
}

// The findings of all queues: one for each kind of trouble.
function queues(all) {
  const found = [];
  const say = (level, what, badge, text, next) => found.push({ key: 'jobs/' + what, level, subject: 'Jobs', page: '#/jobs', badge, text, next });
  for (const q of all.filter((x) => x.orphan)) {
    const o = q.orphan;
    const counts = ['queued', 'started', 'dead', 'finished'].filter((k) => o[k] > 0).map((k) => `${o[k]} ${k}`).join(', ');
    say(o.queued + o.started > 0 ? 'warn' : 'note', 'orphan/' + q.name, 'no route', `no route serves the jobs of ${q.name} (${counts}): they do not run, and clients get 404 for them.`, `A route with ${o.setting} takes them over.`);
  }
  const paused = all.filter((q) => q.paused);
  if (paused.length) {
    const names = words(paused.length > named ? [...paused.slice(0, named).map((q) => q.name), many(paused.length - named, 'more queue')] : paused.map((q) => q.name));
    const waiting = paused.reduce((n, q) => n + q.waiting, 0);
    say('warn', 'paused', 'paused', `${names} ${paused.length === 1 ? 'is' : 'are'} paused: none of ${paused.length === 1 ? 'its' : 'their'} jobs starts, and ${many(waiting, 'job')} ${waiting === 1 ? 'is' : 'are'} waiting.`,
      `Once the reason for the pause is gone: ${words(paused.slice(0, named).map((q) => `“weir jobs resume ${q.name}”`))}.`);
  }
  const served = all.filter((x) => !x.orphan);
  const of = (list, number) => {
    const names = list.map((q) => q.name);
    return many(list.reduce((n, q) => n + number(q), 0), 'job') + ' of ' + words(names.length > named ? [...names.slice(0, named), many(names.length - named, 'more queue')] : names);
  };
  const dead = served.filter((q) => q.dead > 0);
  if (dead.length) {
    const one = dead.length === 1 && dead[0].dead === 1;
    say('note', 'dead', 'dead jobs', `${of(dead, (q) => q.dead)} ${one ? 'is' : 'are'} dead: out of attempts.`, 'Read the error, and retry what can succeed now.');
    found[found.length - 1].page = '#/jobs?state=dead';
  }
  const idle = served.filter((q) => !q.paused && q.waiting > 0 && q.age_ns > 60e9 && q.running === 0);
  if (idle.length) {
    say('warn', 'idle', 'no worker', `${of(idle, (q) => q.waiting)} waiting, the oldest for ${age(Math.max(...idle.map((q) => q.age_ns)) / 1e9)}, and none running.`, 'Is a worker running, and does it reach the store?');
  }
  return found;
}

// Whether there has been no traffic since the start.
export function quiet(store) {
  return !(store.snapshot.units || []).some((u) => u.requests > 0 || u.calls > 0) && !(last(store.total.requests) > 0);
}
