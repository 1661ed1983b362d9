// Limiters, servers and memories that units share.
import { h, panel, text, attr } from './dom.js';
import { Table } from './table.js';
import { badges, meter } from './parts.js';
import { difference, share } from './rates.js';
import { si, rate, count, clock, many, percent, bytes, nanos, none } from './format.js';

export class Limits {
  constructor() {
    this.table = new Table({ caption: 'Limits', key: (r) => r.l.name, columns: [
      { name: 'name', head: 'Name', cell: null, make: (td) => { td.a = h('span'); td.kind = h('span.sub-name'); td.append(td.a, td.kind); },
        draw: (td, r) => { text(td.a, r.l.name); text(td.kind, r.l.kind); } },
      { name: 'use', head: 'In use', num: true, cell: (r) => (r.l.kind === 'rate' ? none : `${count(r.l.in_use)} of ${si(Math.floor(r.l.limit * 10) / 10)}`) },
      { name: 'meter', head: h('span.unseen', null, 'Share in use'), roomy: true, draw: (td, r) => meter(td, r.l.kind === 'rate' ? 0 : share(r.l.in_use, r.l.limit)) },
      { name: 'queued', head: 'Queued', num: true, cell: (r) => count(r.l.queued), tone: (r) => (r.l.queued ? 'minds' : 'zero') },
      { name: 'admitted', head: 'Admitted/s', num: true, cell: (r) => rate(r.d.admitted) },
      { name: 'refused', head: 'Refused/s', num: true, says: 'calls, including background refreshes', cell: (r) => rate(r.refused), tone: (r) => (r.refused > 0 ? 'minds' : 'zero') },
    ] });
    this.el = panel('Limits', 'concurrent calls', this.table.el);
    this.hint = this.el.head.querySelector('.hint');
  }

  draw(store) {
    const all = store.snapshot.limits || [];
    const more = store.snapshot.omitted || 0;
    text(this.hint, 'concurrent calls' + (more ? `; ${count(more)} more limits and memories are not shown` : ''));
    this.el.hidden = !all.length;
    const { snapshot, seconds } = store.before();
    this.table.draw(all.map((l) => {
      const then = (snapshot.limits || []).find((x) => x.name === l.name);
      const refused = Object.values(difference(l.refused, then && then.refused, seconds)).reduce((a, b) => a + b, 0);
      return { l, d: then ? difference(l, then, seconds) : {}, refused: then ? refused : NaN };
    }));
  }
}

// Budgets of cost. A client's is one for each client, so it has no number that is left.
export class Budgets {
  constructor() {
    this.table = new Table({ caption: 'Budgets', key: (r) => r.b.kind + ' ' + r.b.name, columns: [
      { name: 'name', head: 'Name', make: (td) => { td.a = h('span'); td.kind = h('span.sub-name'); td.append(td.a, td.kind); },
        draw: (td, r) => { text(td.a, r.b.name); text(td.kind, r.b.kind === 'client' ? 'each client' : r.b.kind); } },
      { name: 'left', head: 'Left', num: true, says: 'units that can be spent; negative if some are owed', cell: (r) => (r.b.kind === 'client' ? none : `${count(r.b.left)} of ${count(r.b.burst)}`), tone: (r) => (r.b.kind !== 'client' && r.b.left < 1 ? 'hurts' : '') },
      { name: 'meter', head: h('span.unseen', null, 'Share left'), roomy: true, draw: (td, r) => meter(td, r.b.kind === 'client' ? 0 : share(Math.max(0, r.b.left), r.b.burst)) },
      { name: 'refill', head: 'Refill', num: true, says: 'units that come back', cell: (r) => refill(r.b.per_second) },
      { name: 'queued', head: 'Queued', num: true, roomy: true, says: 'calls that wait for units', cell: (r) => count(r.b.queued), tone: (r) => (r.b.queued ? 'minds' : 'zero') },
      { name: 'refused', head: 'Refused/s', num: true, cell: (r) => rate(r.d.refused), tone: (r) => (r.d.refused > 0 ? 'minds' : 'zero') },
      { name: 'over', head: 'Mostly', says: 'the client that was lately refused most', cell: (r) => { const c = (r.b.over || [])[0]; return c ? `${c.address}, ${percent(c.share)}` : none; } },
    ] });
    this.el = panel('Budgets', 'units of cost', this.table.el);
  }

  // wanted selects budgets.
  draw(store, wanted = () => true) {
    const all = (store.snapshot.budgets || []).filter(wanted);
    this.el.hidden = !all.length;
    const { snapshot, seconds } = store.before();
    this.table.draw(all.map((b) => {
      const then = (snapshot.budgets || []).find((x) => x.name === b.name && x.kind === b.kind);
      return { b, d: then ? difference(b, then, seconds) : {} };
    }));
  }
}

// How fast units come back, in the shortest period for which that is a whole number.
function refill(perSecond) {
  for (const [seconds, unit] of [[1, 's'], [60, 'min'], [3600, 'h']]) {
    const n = perSecond * seconds;
    if (n >= 1 && Math.abs(n - Math.round(n)) < 1e-6 * n) return `${count(n)}/${unit}`;
  }
  return `${si(perSecond * 86400)}/d`;
}

export class Servers {
  constructor() {
    this.table = new Table({ caption: 'Servers', key: (r) => r.s.upstream + ' ' + r.s.url, columns: [
      { name: 'url', head: 'Server', loose: true, make: (td) => { td.a = h('span'); td.kind = h('span.sub-name'); td.out = h('span.last-out'); td.append(td.a, td.kind, td.out); },
        draw: (td, r) => { text(td.a, r.s.url); text(td.kind, r.s.name ? `${r.s.upstream}, resolved from ${r.s.name}` : r.s.upstream); text(td.out, lastOut(r.s)); attr(td.out, 'hidden', !r.s.left); attr(td.out, 'title', r.s.reason || null); } },
      { name: 'state', head: 'State', draw: (td, r) => badges(td, r.wrongs, r.d.calls > 0 || r.s.in_flight > 0 ? { level: 'good', badge: conditions[r.s.state] || 'healthy' } : { level: 'plain', badge: conditions[r.s.state] || 'idle' }) },
      { name: 'share', head: 'Share', num: true, says: 'of the calls to its upstream', cell: (r) => percent(r.share) },
      { name: 'weight', head: 'Weight', num: true, cell: (r) => (r.s.weight === undefined ? none : count(r.s.weight)) },
      { name: 'head', head: 'First byte', num: true, says: 'usual time to the head of its responses; measured if its upstream has several servers', cell: (r) => (r.s.head_ns ? nanos(r.s.head_ns) : none) },
      { name: 'failures', head: 'Failures', num: true, says: 'share of failures among its latest responses: no response, or a status that the upstream counts as a failure', cell: (r) => (r.s.head_ns || r.s.failing ? percent(r.s.failing || 0) : none), tone: (r) => (r.s.failing >= 0.5 ? 'hurts' : r.s.failing > 0.005 ? 'minds' : 'zero') },
      { name: 'moved', head: 'Moved', num: true, says: 'share of its calls with a key of another server, which had no room or had failed; with affinity', cell: (r) => (r.d.kept > 0 || r.d.moved > 0 ? percent(share(r.d.moved, r.d.kept + r.d.moved)) : none) },
      { name: 'failed', head: 'No response', num: true, says: 'share of its calls that failed without a complete response in time; one with status 500 or more is a response', cell: (r) => percent(r.failing), tone: (r) => (r.failing >= 0.5 ? 'hurts' : r.failing > 0 ? 'minds' : 'zero') },
      { name: 'flight', head: 'In flight', num: true, cell: (r) => count(r.s.in_flight) },
      { name: 'calls', head: 'Calls/s', num: true, says: 'of this server, including health checks’ and retries', cell: (r) => rate(r.d.calls) },
    ] });
    this.el = panel('Upstream servers', ' ', this.table.el);
    this.hint = this.el.head.querySelector('.hint');
  }

  // found are the findings; upstream selects the servers, without it all are shown.
  draw(store, found, upstream) {
    const all = (store.snapshot.servers || []).filter((s) => upstream === undefined || s.upstream === upstream);
    const down = (s) => found.some((f) => f.level === 'bad' && f.badge === 'source failing' && (f.sources || []).includes(s.upstream));
    this.el.hidden = !all.length;
    const { snapshot, seconds } = store.before();
    const rows = all.map((s) => {
      const then = (snapshot.servers || []).find((x) => x.upstream === s.upstream && x.url === s.url);
      const d = then ? difference(s, then, seconds) : {};
      const failing = share(d.failures, d.calls);
      return { s, d, failing, wrongs: wrongs(s, failing, down(s)) };
    });
    for (const r of rows) {
      const calls = rows.reduce((sum, o) => sum + (o.s.upstream === r.s.upstream ? o.d.calls || 0 : 0), 0);
      r.share = share(r.d.calls, calls);
    }
    this.table.draw(rows);
    const out = rows.filter((r) => r.wrongs.length).length;
    text(this.hint, out ? `${out} of ${many(all.length, 'server')} ${out === 1 ? 'has' : 'have'} trouble` : `${many(all.length, 'server')}, all in use`);
  }
}

// When the server last got no calls; its title has the reason.
function lastOut(s) {
  if (!s.left) return '';
  const at = (t) => clock(Date.parse(t) / 1000);
  return s.returned ? `last out ${at(s.left)}–${at(s.returned)}` : `out since ${at(s.left)}`;
}
// The conditions of a server that gets calls, as its badge shows them.
const conditions = { starting: 'starting', draining: 'draining' };

function wrongs(s, failing, down) {
  const out = [];
  if (s.ejected) out.push({ level: 'bad', badge: 'ejected', text: 'It failed too often, and gets no calls for a while.' });
  if (s.state === 'penalized') out.push({ level: 'bad', badge: 'penalized', text: 'It fails where the other servers do not, and gets no calls for a while.' });
  if (s.state === 'trying') out.push({ level: 'bad', badge: 'tried', text: 'It failed where the other servers did not, and gets one call at a time until three in a row succeed.' });
  if (!s.healthy) out.push({ level: 'bad', badge: 'unhealthy', text: 'Its health check fails.' });
  if (!out.length && failing >= 0.5) out.push({ level: 'bad', badge: 'failing', text: 'Most of its calls get no response.' });
  else if (!out.length && down) out.push({ level: 'bad', badge: 'calls fail', text: 'It is not ejected, but most calls to this upstream fail: it answers with errors.' });
  return out;
}

export class Stores {
  constructor() {
    this.table = new Table({ caption: 'Memory', key: (s) => s.name, columns: [
      { name: 'name', head: 'Name', cell: (s) => s.name },
      { name: 'entries', head: 'Entries', num: true, cell: (s) => count(s.entries) },
      { name: 'used', head: 'Used', num: true, cell: (s) => (s.bytes > 0 ? `${bytes(s.used)} of ${bytes(s.bytes)}` : none) },
      { name: 'meter', head: h('span.unseen', null, 'Share used'), roomy: true, draw: (td, s) => meter(td, s.bytes > 0 ? share(s.used, s.bytes) : 0) },
      { name: 'evicted', head: 'Evicted', num: true, cell: (s) => count(s.evicted), tone: (s) => (s.evicted ? '' : 'zero') },
      { name: 'too_big', head: 'Too big', num: true, says: 'not stored, because they exceed the size limit', cell: (s) => count(s.too_big), tone: (s) => (s.too_big ? '' : 'zero') },
      { name: 'purged', head: 'Purged', num: true, cell: (s) => count(s.purged), tone: (s) => (s.purged ? '' : 'zero') },
    ] });
    this.el = panel('Memory', 'shared by routes, or by the methods of a policy', this.table.el);
  }

  draw(store) {
    const all = store.snapshot.stores || [];
    attr(this.el, 'hidden', !all.length);
    this.table.draw(all);
  }
}
