// The findings that an operator should see first. They are rules over the last
// seconds. Each finding keeps its key while it lasts, so that it is announced once.
import { now as rates, pointsOf, mean, last } from './rates.js';
import { percent, perSecond, many, age, nanos } from './format.js';

const most = 6; // times the length of now: a minute
const few = 5; // calls: fewer are not significant
const order = { bad: 0, warn: 1, note: 2 };

// attention returns [{key, level, unit, badge, text}], the worst first.
export function attention(store) {
  const s = store.snapshot;
  if (!s) return [];
  const points = pointsOf(store);
  const found = [...processes(s), ...tiers(s), ...servers(s)];
  for (const u of s.units || []) found.push(...unit(u, store.series(u.name), points, store.interval || 1));
  for (const l of s.limits || []) found.push(...limits(l, store.limits.get(l.name) || { t: [] }, points));
  for (const q of s.queues || []) found.push(...queues(q));
  return found.sort((a, b) => order[a.level] - order[b.level]);
}

// The findings of one unit, with those of its limiter and its servers.
export const attentionOf = (all, u) => all.filter((f) => f.unit === u.name || (f.limit && f.limit === u.limit));

function unit(u, series, points, interval) {
  const r = rates(series, points);
  const found = [];
  const say = (level, what, badge, text) => found.push({ key: u.name + '/' + what, level, unit: u.name, badge, text });
  const f = failures(r, series, points, interval);
  if (f.failing >= 0.5 && f.failures >= 2) {
    say('bad', 'failing', 'source failing', `${shareOf(f.failing)} calls of the source ${f.when}; ${instead(f)}.`);
  } else if (f.failing >= 0.05 && f.failures >= 3) {
    say('warn', 'failing', 'calls fail', `${percent(f.failing)} of calls of the source ${f.when}; ${instead(f)}.`);
  } else if (r.staleOnError > 0) {
    say('warn', 'stale', 'stale on error', `stale responses are served instead of errors or long waits, ${perSecond(r.staleOnError)}.`);
  }
  if (u.stuck > 0) {
    say('bad', 'stuck', 'stuck', `${many(u.stuck, 'call')} of the source ${u.stuck === 1 ? 'is' : 'are'} stuck: abandoned long ago, but still running.`);
  }
  if (r.refusing >= 0.005 && r.refused * points >= 2) {
    say(r.refusing >= 0.1 ? 'bad' : 'warn', 'refused', 'refusing', `${percent(r.refusing)} of requests are refused, ${perSecond(r.refused)}.`);
  }
  return found;
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

// The badge of a unit without findings. r are its rates.
export function calm(u, r) {
  if (r.failing >= 0.05) return { level: 'warn', badge: 'a call failed' };
  const busy = r.requests > 0 || r.calls > 0 || r.refused > 0 || u.flights > 0 || u.running > 0;
  return busy ? { level: 'good', badge: 'well' } : { level: 'plain', badge: 'idle' };
}

const shareOf = (x) => (x >= 0.9995 ? 'all' : percent(x) + ' of');

function instead(r) {
  if (r.staleOnError > 0) return `stale responses are served instead, ${perSecond(r.staleOnError)}`;
  return 'there is no stale response to serve instead';
}

function limits(l, series, points) {
  const found = [];
  const least = (series.queued || []).slice(-points);
  const standing = least.length >= Math.min(5, points) && least.every((q) => q > 0);
  if (standing && l.queued > 0) {
    const wait = l.limit > 0 && l.held_ns > 0 && l.kind !== 'rate' ? ', which means a wait of about ' + nanos((l.queued / l.limit) * l.held_ns) : '';
    found.push({ key: l.name + '/queue', level: 'warn', limit: l.name, subject: l.name, badge: 'standing queue',
      text: `a queue of ${Math.round(mean(series.queued, points))} calls is not draining${wait}.` });
  }
  if (l.overloaded && !found.length) {
    found.push({ key: l.name + '/overloaded', level: 'warn', limit: l.name, subject: l.name, badge: 'overloaded',
      text: 'the source is slower than it should be, so the limit is kept low.' });
  }
  return found;
}

function servers(s) {
  const by = new Map();
  for (const v of s.servers || []) {
    if (!by.has(v.upstream)) by.set(v.upstream, []);
    by.get(v.upstream).push(v);
  }
  const found = [];
  for (const [upstream, all] of by) {
    const out = all.filter((v) => v.ejected || !v.healthy).length;
    if (!out) continue;
    const every = out === all.length;
    found.push({ key: upstream + '/servers', level: every ? 'bad' : 'warn', limit: upstream, subject: upstream, badge: 'servers out',
      text: every ? `no server of this upstream is healthy: ${all.length === 1 ? 'its only server is ejected or fails its checks' : `all ${all.length} are ejected or fail their checks`}.`
        : `${out} of ${all.length} servers ${out === 1 ? 'is ejected or fails its checks' : 'are ejected or fail their checks'}.` });
  }
  return found;
}

function tiers(s) {
  if (!s.tier || !s.tier.open) return [];
  return [{ key: 'tier', level: 'warn', subject: 'Fleet', badge: 'tier open', page: '#/fleet',
    text: 'the shared store does not respond: this instance works independently until it does.' }];
}

function processes(s) {
  const state = s.process && s.process.state;
  if (!state || state === 'ready') return [];
  return [{ key: 'process', level: 'warn', subject: 'Process', badge: 'not ready', text: 'not ready: ' + state + '.' }];
}

function queues(q) {
  const found = [];
  const o = q.orphan;
  if (o) {
    const counts = ['queued', 'started', 'dead', 'finished'].filter((k) => o[k] > 0).map((k) => `${o[k]} ${k}`).join(', ');
    found.push({ key: q.name + '/orphan', level: o.queued + o.started > 0 ? 'warn' : 'note', subject: 'Jobs', page: '#/jobs', badge: 'no route',
      text: `no route serves the jobs of ${q.name} (${counts}): they do not run, and clients get 404 for them. A route with ${o.setting} takes them over.` });
    return found;
  }
  if (q.dead > 0) {
    found.push({ key: q.name + '/dead', level: 'note', subject: 'Jobs', page: '#/jobs', badge: 'dead jobs',
      text: `${many(q.dead, 'job')} of ${q.name} ${q.dead === 1 ? 'is' : 'are'} dead: out of attempts, and kept for you to inspect.` });
  }
  if (q.waiting > 0 && q.age_ns > 60e9 && q.running === 0) {
    found.push({ key: q.name + '/idle', level: 'warn', subject: 'Jobs', page: '#/jobs', badge: 'no worker',
      text: `${many(q.waiting, 'job')} of ${q.name} waiting, the oldest for ${age(q.age_ns / 1e9)}, and none running.` });
  }
  return found;
}

// Whether there has been no traffic since the start.
export function quiet(store) {
  return !(store.snapshot.units || []).some((u) => u.requests > 0 || u.calls > 0) && !(last(store.total.requests) > 0);
}
