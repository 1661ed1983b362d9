// The facts of a unit next to its charts: its counters, its entries, its limit.
import { h, panel, text, attr, each } from './dom.js';
import { bars } from './parts.js';
import { kinds, refusals, share, difference, costSince } from './rates.js';
import { count, percent, nanos, si, rate, none, money } from './format.js';

// Names and values. items are [name, value, note, key].
function facts(dl, items) {
  each(dl, items, ([name]) => name, ([name]) => h('div', null, h('dt', null, name), h('dd', null, h('span'), ' ', h('small'))),
    (div, [, value, note, key]) => {
      const [main, , small] = div.lastChild.childNodes;
      text(main, value);
      text(small, note || '');
      attr(div.lastChild, 'data-name', key); // for tests, with the value as it is in JSON
      attr(div.lastChild, 'data-value', key && value.replaceAll(',', ''));
    });
}

const held = [
  { name: 'fresh', label: 'Fresh', color: '--c-hits' },
  { name: 'refresh_due', label: 'Refresh due', color: '--c-joined', says: 'fresh, and the next hit refreshes it' },
  { name: 'stale', label: 'Stale', color: '--c-stale', says: 'served immediately, and refreshed in the background' },
  { name: 'on_error', label: 'Only on error', color: '--c-calls', says: 'served only if a load fails' },
  { name: 'negative', label: 'Known missing', color: '--c-negative', says: 'the source does not have it' },
  { name: 'failing', label: 'Known failing', color: '--c-failures', says: 'remembered failures' },
  { name: 'dead', label: 'Too old', color: '--c-requests', says: 'no longer usable, and not evicted yet' },
];

// Units that share a memory.
const without = { route: 'Routes share one memory for their entries: see the overview.', method: 'It shares nothing.' };
const shared = { route: ', of all routes that share the memory', method: ', of all methods of its policy' };

export class Entries {
  constructor() {
    this.bar = h('div.mix-bar', { 'aria-hidden': 'true' });
    this.key = h('ul.mix-key');
    this.none = h('p.empty', { hidden: true });
    this.el = panel('Entries in memory', 'entries by state', this.bar, this.key, this.none);
    this.el.classList.add('live');
    this.hint = this.el.head.querySelector('.hint');
  }

  draw(entries, unit) {
    const items = held.map((k) => ({ ...k, value: (entries || {})[k.name] || 0 }));
    const sum = items.reduce((n, k) => n + k.value, 0);
    for (const e of [this.bar, this.key]) attr(e, 'hidden', sum === 0);
    attr(this.none, 'hidden', sum > 0);
    text(this.none, entries ? 'The memory is empty.' : without[unit.kind] || 'Its entries are not known.');
    text(this.hint, sum ? count(sum) + ' entries by state' + (shared[unit.kind] || '') : 'entries by state');
    bars(this.bar, this.key, items.filter((k) => k.value > 0), sum, (k) => `${count(k.value)}, ${percent(share(k.value, sum))}`, (k) => k.says || '');
  }
}

export class LimitFacts {
  constructor() {
    this.list = h('dl.facts');
    this.reasons = h('ul.mix-key');
    this.el = panel('Limit', ' ', this.list, this.reasons);
    this.el.classList.add('live');
    this.hint = this.el.head.querySelector('.hint');
  }

  draw(l, store, name) {
    attr(this.el, 'hidden', !l);
    if (!l) return;
    const { snapshot, seconds } = store.before();
    const then = (snapshot.limits || []).find((x) => x.name === l.name);
    const perSecond = then ? difference(l, then, seconds) : {};
    text(this.hint, `${name}, ${l.kind}${l.overloaded ? ', overloaded' : ''}`);
    const items = [
      ['Limit', si(Math.floor(l.limit * 10) / 10), l.kind === 'rate' ? 'per second' : 'concurrently', 'limit'],
      ['In use', count(l.in_use), '', 'in_use'],
      ['Queued', count(l.queued), '', 'queued'],
      ['A call takes', l.held_ns > 0 ? nanos(l.held_ns) : none, 'on average'],
    ];
    if (l.kind === 'adaptive') {
      items.push(['Latency', nanos(l.latency_ns), 'of the last window'], ['Baseline', nanos(l.baseline_ns), 'with spare capacity']);
    }
    items.push(['Admitted', count(l.admitted), rate(perSecond.admitted) + '/s', 'admitted'], ['Waited first', count(l.waited), '', 'waited'], ['Left the queue', count(l.left), '', 'left']);
    facts(this.list, items);
    const refused = Object.entries(l.refused || {}).sort((a, b) => b[1] - a[1]);
    each(this.reasons, refused, ([reason]) => reason, ([reason]) => h('li', null, `Refused, ${reason.replaceAll('_', ' ')}: `, h('b')), (li, [, n]) => text(li.lastChild, count(n)));
  }
}

// What a unit has cost, in units and in money.
function costs(u) {
  const c = costSince([u]);
  if (!c) return [];
  const row = (label, name) => [label, count(c[name]), c.currency ? money(c.money[name], c.currency) : 'units', 'cost_' + name];
  return [row('Cost spent', 'spent'), row('Cost avoided', 'avoided'), row('Cost refused', 'refused')];
}

export class Counts {
  constructor() {
    this.list = h('dl.facts');
    this.el = panel('Since the start', 'exact counts', this.list);
    this.el.classList.add('live');
  }

  draw(u) {
    const of = (n, all) => (all > 0 && n > 0 ? percent(n / all) : '');
    facts(this.list, [
      ['Requests', count(u.requests), '', 'requests'],
      ...kinds.map((k) => [k.label, count(u.avoided[k.name]), of(u.avoided[k.name], u.requests), k.name]),
      ['Upstream calls', count(u.calls), '', 'calls'],
      ['of these, refreshes', count(u.refreshes), of(u.refreshes, u.calls), 'refreshes'],
      ['Calls failed', count(u.failed), of(u.failed, u.calls), 'failed'],
      ['of these, timeouts', count(u.timeouts), '', 'timeouts'],
      ['of these, panics', count(u.panics), '', 'panics'],
      ['Abandoned', count(u.abandoned), 'no request was waiting', 'abandoned'],
      ['Stale on error', count(u.stale_on_error), '', 'stale_on_error'],
      ...refusals.filter((k) => !k.rare || u.refused[k.key] > 0).map((k) => [k.label, count(u.refused[k.key]), of(u.refused[k.key], u.requests), 'refused_' + k.key]),
      ['Refused as stuck', count(u.refused.stuck), of(u.refused.stuck, u.requests), 'refused_stuck'],
      ...costs(u),
      ...fallback(u),
      ...this.now(u),
      ...[['A request', u.request_time], ['A wait', u.wait_time], ['A call to the source', u.call_time]]
        .filter(([, d]) => d && d.count > 0).map(([name, d]) => [name, nanos(d.p50_ns), `p99 ${nanos(d.p99_ns)}`]),
    ]);
  }

  now(u) {
    return [
      ['Running now', count(u.running), u.refreshing ? `${count(u.refreshing)} refreshing` : '', 'running'],
      ['Waiting now', count(u.waiting), '', 'waiting'],
      ['Stuck now', count(u.stuck), '', 'stuck'],
      ...(u.kind === 'guard' ? [['Entries now', count(u.entries), '', 'entries'], ['Evicted', count(u.evicted), '', 'evicted']] : []),
    ];
  }
}

// What went to a route's fallback.
function fallback(u) {
  const f = u.fallback;
  if (!f) return [];
  return f.reasons.map((r) => [`To ${f.upstream}: ${r.reason}`, count(r.sent), [r.refused > 0 ? `${count(r.refused)} over the retry budget` : '', r.would > 0 ? `${count(r.would)} without observe mode` : ''].filter(Boolean).join(', ')]);
}

// What observe mode has found out about a route.
export class Observing {
  constructor() {
    this.list = h('dl.facts');
    this.el = panel('Observe mode', 'what would have happened without it, since the start', this.list);
    this.el.classList.add('live');
  }

  draw(u) {
    const o = u.observed;
    attr(this.el, 'hidden', !o);
    if (!o) return;
    const of = (n) => (u.requests > 0 ? percent(n / u.requests) : '');
    facts(this.list, [
      ['Hits', count(o.hits), of(o.hits), 'hits'], ['Joined', count(o.joined), of(o.joined), 'joined'],
      ['Responses compared', count(o.compared), '', 'compared'], ['of these, differed', count(o.differed), o.differed > 0 ? 'the log has each of them' : '', 'differed'],
      ['Queued', count(o.queued), of(o.queued), 'queued'], ['Refused, 503', count(o.refused), of(o.refused), 'refused'], ['Refused, 429', count(o.refused_client), of(o.refused_client), 'refused_client'],
      ['Refused by a budget', count(o.refused_budget || 0), of(o.refused_budget || 0), 'refused_budget'],
    ]);
  }
}

// Why requests of a route share nothing. The server writes the sentences.
export class Alone {
  constructor() {
    this.list = h('ul.reasons');
    this.el = panel('Why requests share nothing', 'since the start', this.list);
    this.el.classList.add('live');
  }

  draw(u) {
    const all = u.alone || [];
    attr(this.el, 'hidden', !all.length);
    each(this.list, all, (a) => a.reason, (a) => h('li', null, h('p', null, h('b', null, a.reason), ': ', h('span')), h('p.next')), (li, a) => {
      text(li.firstChild.lastChild, a.text);
      text(li.lastChild, a.next ? 'Next: ' + a.next : '');
      attr(li.lastChild, 'hidden', !a.next);
    });
  }
}
