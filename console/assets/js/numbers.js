// What weir saves, and the calls to the source: the big numbers of all units, or of one.
import { h, panel, text, attr } from './dom.js';
import { Tile, bars } from './parts.js';
import { kinds, rest, refusals, avoidedSince, endedSince, costSince, share, difference } from './rates.js';
import { percent, rate, duration, count, si, perSecond, money } from './format.js';

export class Numbers {
  constructor() {
    this.big = h('p.big', null, '–');
    this.note = h('p.note');
    this.bar = h('div.mix-bar', { 'aria-hidden': 'true' });
    this.key = h('ul.mix-key');
    const hero = h('div.tile.hero', { 'aria-label': 'Answered without a call of their own' },
      h('p.name', null, 'Answered without a call of their own'), this.big, this.note, h('div.mix', null, this.bar, this.key));
    this.tiles = {
      requests: new Tile('Requests', 'joined', { says: 'to weir; mean of the last 10 seconds' }),
      calls: new Tile('Upstream calls', 'calls', { says: 'including refreshes; mean of the last 10 seconds' }),
      failed: new Tile('Calls failed', 'failed', { says: 'of the source, including timeouts and panics' }),
      refused: new Tile('Refused', 'refused', { says: 'by a limit or a budget, or because calls are stuck: 503, or Unavailable' }),
      cost: new Tile('Cost', 'calls', { says: 'units that calls to the source cost, mean of the last 10 seconds; below, since the start' }),
      times: new Tile('Call p50 / p99', 'p99', { pair: true, says: 'of calls to the source' }),
    };
    this.el = panel('What weir saves', 'requests, and calls to the source', h('div.tiles', null, hero, Object.values(this.tiles).map((t) => t.el)));
    this.el.classList.add('live', 'savings');
  }

  // r are the rates of series; wanted selects their units.
  draw(r, series, range, store, wanted) {
    const units = (s) => (s.units || []).filter(wanted);
    const sum = (f) => units(store.snapshot).reduce((n, u) => n + f(u), 0);
    this.drawSaved(r, share(sum((u) => avoidedSince(u.avoided)), sum(endedSince)));
    const line = (name) => (series[name] || []).slice(-range / store.interval);
    const t = this.tiles;
    t.requests.draw(rate(r.requests), '/s', count(sum((u) => u.requests)) + ' since the start', line('requests'));
    t.calls.draw(rate(r.calls), '/s', r.refreshes > 0 ? rate(r.refreshes) + '/s refreshes' : count(sum((u) => u.calls)) + ' since the start', line('calls'));
    t.failed.draw(rate(r.failed), '/s', r.failed > 0 ? percent(r.failing) + ' of calls' : count(sum((u) => u.failed)) + ' since the start',
      line('failed'), r.failing >= 0.5 ? 'bad' : r.failed > 0 ? 'warn' : null);
    t.refused.draw(rate(r.refused), '/s', (r.refused > 0 && reasons(store, units)) || count(sum((u) => ours.reduce((n, k) => n + (u.refused[k] || 0), 0))) + ' since the start',
      line('refused'), r.refusing >= 0.1 ? 'bad' : r.refused > 0 ? 'warn' : null);
    const cost = costSince(units(store.snapshot));
    attr(t.cost.el, 'hidden', !cost);
    this.el.classList.toggle('priced', Boolean(cost));
    if (cost) t.cost.draw(rate(r.costSpent), '/s', costInWords(cost), line('cost_spent'), r.costRefused > 0 ? 'warn' : null);
    const calls = (q) => line('call_' + q).findLast((v) => v !== null && v !== undefined);
    t.times.draw(duration(calls('p50')), ' / ' + duration(calls('p99')), 'to the response headers', line('call_p99'));
  }

  drawSaved(r, since) {
    text(this.big, percent(r.saved));
    const observing = r.wouldSave > 0 ? ` Without observe mode it would be ${percent(r.saved + r.wouldSave)}.` : '';
    text(this.note, inWords(r) + observing + (Number.isFinite(since) ? ` ${percent(since)} since the start.` : ''));
    const all = [...kinds, ...rest].map((k) => ({ ...k, value: r.kinds[k.name] }));
    bars(this.bar, this.key, all.filter((k) => k.value > r.ended / 5000), r.ended, (k) => percent(share(k.value, r.ended)), (k) => `${k.says}, ${perSecond(k.value)}`);
  }
}

// What was spent, avoided and refused since the start, in money if prices are known.
function costInWords(c) {
  const say = (name) => (c.currency ? money(c.money[name], c.currency) : si(c[name]));
  const all = [`${say('spent')} spent`, `${say('avoided')} avoided`];
  if (c.refused > 0) all.push(`${say('refused')} refused`);
  return all.join(', ');
}

// The savings in words. Refused requests got no response, so they saved no call.
function inWords(r) {
  if (r.calls < 0.01) return r.requests > 0 ? 'No calls to the source now.' : 'No requests now.';
  if (r.saved < 0.03) return 'Each request makes a call now.';
  const each = si((r.requests - r.refused - r.refusedClient - r.tooLarge) / r.calls);
  return each === '1' ? 'About one call per request now.' : `One call per ${each} requests now.`;
}

const names = { ...Object.fromEntries(refusals.filter((k) => k.status === 503).map((k) => [k.key, k.by])), stuck: 'as stuck' };
const ours = Object.keys(names);

// The recent refusals by kind.
function reasons(store, units) {
  const { snapshot, seconds } = store.before();
  const sum = (s) => {
    const out = Object.fromEntries(ours.map((k) => [k, 0]));
    for (const u of units(s)) for (const k of ours) out[k] += u.refused[k] || 0;
    return out;
  };
  const d = difference(sum(store.snapshot), sum(snapshot), seconds);
  const said = Object.entries(d).filter(([, v]) => v > 0).sort((a, b) => b[1] - a[1]);
  if (said.length === 1) return names[said[0][0]];
  const all = said.reduce((n, [, v]) => n + v, 0);
  return said.map(([k, v]) => `${percent(v / all)} ${names[k]}`).join(', ');
}
