// The big numbers of all units, or of one.
import { h, text } from './dom.js';
import { Tile, Mix } from './parts.js';
import { avoidedSince, share, difference } from './rates.js';
import { percent, rate, duration, count, si } from './format.js';

export class Numbers {
  constructor() {
    this.big = h('p.big', null, '–');
    this.note = h('p.note');
    this.mix = new Mix();
    const hero = h('section.tile.hero.live', { 'aria-label': 'Calls of the source avoided' },
      h('p.name', null, 'Calls of the source avoided'), this.big, this.note, this.mix.el);
    this.tiles = {
      requests: new Tile('Requests', 'joined', { says: 'to weir; mean of the last 10 seconds' }),
      calls: new Tile('Source calls', 'calls', { says: 'loads and refreshes; mean of the last 10 seconds' }),
      refused: new Tile('Refused', 'refused', { says: 'by a limit, by the client limiter, or because calls are stuck' }),
      failed: new Tile('Calls failed', 'failed', { says: 'of the source, including timeouts and panics' }),
      times: new Tile('p50 / p99', 'p99', { pair: true }),
    };
    this.el = h('div.tiles', null, hero, Object.values(this.tiles).map((t) => t.el));
  }

  // r are the rates of series; wanted selects their units.
  draw(r, series, range, store, wanted) {
    const units = (s) => (s.units || []).filter(wanted);
    const sum = (f) => units(store.snapshot).reduce((n, u) => n + f(u), 0);
    this.drawSaved(r, sum((u) => avoidedSince(u.avoided)), sum((u) => u.calls));
    const line = (name) => (series[name] || []).slice(-range / store.interval);
    const t = this.tiles;
    t.requests.draw(rate(r.requests), '/s', count(sum((u) => u.requests)) + ' in all', line('requests'));
    t.calls.draw(rate(r.calls), '/s', r.refreshes > 0 ? rate(r.refreshes) + '/s refreshes' : count(sum((u) => u.calls)) + ' in all', line('calls'));
    t.refused.draw(rate(r.refused), '/s', (r.refused > 0 && reasons(store, units)) || count(sum((u) => refusals(u.refused))) + ' in all',
      line('refused'), r.refusing >= 0.1 ? 'bad' : r.refused > 0 ? 'warn' : null);
    t.failed.draw(rate(r.failed), '/s', r.failed > 0 ? percent(r.failing) + ' of calls' : count(sum((u) => u.failed)) + ' in all',
      line('failed'), r.failing >= 0.5 ? 'bad' : r.failed > 0 ? 'warn' : null);
    t.times.draw(duration(r.p50), ' / ' + duration(r.p99), r.of === 'request' ? 'of requests' : 'of calls of the source', line(r.of + '_p99'));
  }

  drawSaved(r, avoided, calls) {
    text(this.big, percent(r.saved));
    text(this.note, inWords(r) + (avoided + calls > 0 ? ` ${percent(share(avoided, avoided + calls))} since the start.` : ''));
    this.mix.draw(r);
  }
}

// The savings in words. Refused requests got no response, so they saved no call.
function inWords(r) {
  if (r.calls < 0.01) return r.requests > 0 ? 'No calls of the source now.' : 'No requests now.';
  if (r.saved < 0.03) return 'Each request makes a call now.';
  const each = si((r.requests - r.refused) / r.calls);
  return each === '1' ? 'About one call per request now.' : `One call per ${each} requests now.`;
}

export const refusals = (refused) => refused.limit + refused.client + refused.stuck;
const names = { limit: 'by limits', client: "by clients' rates", stuck: 'as stuck' };

// The recent refusals by kind.
function reasons(store, units) {
  const { snapshot, seconds } = store.before();
  const sum = (s) => {
    const out = { limit: 0, client: 0, stuck: 0 };
    for (const u of units(s)) for (const k of Object.keys(out)) out[k] += u.refused[k];
    return out;
  };
  const d = difference(sum(store.snapshot), sum(snapshot), seconds);
  const said = Object.entries(d).filter(([, v]) => v > 0).sort((a, b) => b[1] - a[1]);
  if (said.length === 1) return names[said[0][0]];
  const all = said.reduce((n, [, v]) => n + v, 0);
  return said.map(([k, v]) => `${percent(v / all)} ${names[k]}`).join(', ');
}
