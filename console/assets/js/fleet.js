// The fleet: its instances, and the state of its shared store.
import { h, panel, empty, text, attr, swap } from './dom.js';
import { Table } from './table.js';
import { poll } from './poll.js';
import { ask } from './api.js';
import { sentence } from './sentences.js';
import { count, age, between, instant, many, none, words } from './format.js';

const pause = 3000;
const usual = ['requests', 'avoided', 'calls', 'refused']; // counts, in the order of other pages
const late = 15; // seconds without a message, after which an instance is marked

export class Fleet {
  constructor(app) {
    this.app = app;
    this.title = 'Fleet';
    this.there = app.store.hello.features.fleet;
    this.sum = h('p.sub');
    this.problem = h('p.result', { 'data-level': 'bad', role: 'status', hidden: true });
    this.table = h('div');
    this.instances = panel('Instances', 'as announced by each; counts are since its start', this.problem, this.table);
    this.state = h('p');
    this.pending = h('p', { hidden: true });
    this.tier = h('dl.facts.notes.gap');
    this.tierPanel = panel('Shared store', 'as this instance sees it, since the start', this.state, this.pending, this.tier);
    this.tierPanel.classList.add('live');
    this.none = h('div', { hidden: true }, empty('There is no fleet here.', 'This program shares nothing with other instances. With a shared store, Redis or Valkey, several instances together make each call to the source only once: see fleet in the gateway’s configuration.'));
    this.body = h('div.stack', null, this.tierPanel, this.instances);
    this.el = h('div', null, h('div.page-head', null, h('h1', null, 'Fleet'), this.sum), this.none, this.body);
    if (this.there) this.poll = poll(pause, (signal) => this.load(signal), () => app.resting);
  }

  async load(signal) {
    let f;
    try {
      f = await ask('api/fleet', { signal });
    } catch (err) {
      if (err.name === 'AbortError') throw err;
      f = { instances: this.last || [], error: err.message };
    }
    this.last = f.instances;
    attr(this.table, 'hidden', Boolean(f.error) && !f.instances.length); // an empty table would say that there are no instances
    attr(this.problem, 'hidden', !f.error);
    text(this.problem, f.error ? 'The instances of the fleet are not known at the moment. ' + sentence(f.error) : '');
    this.drawInstances(f);
  }

  drawInstances(f) {
    const told = new Set(f.instances.flatMap((i) => Object.keys(i.counts || {})));
    const names = [...usual.filter((n) => told.delete(n)), ...[...told].sort()].slice(0, 6);
    if (this.names !== names.join()) {
      this.names = names.join();
      this.list = instances(names);
      this.table.replaceChildren(this.list.el);
    }
    this.list.draw(f.instances.map((i) => ({ ...i, self: i.id === f.self })));
    const versions = [...new Set(f.instances.map((i) => i.version).filter(Boolean))];
    text(this.sum, f.instances.length ? many(f.instances.length, 'instance') + (versions.length > 1 ? `, of ${versions.length} versions: ${words(versions)}` : '') : '');
  }

  draw() {
    const t = this.app.store.snapshot.tier;
    attr(this.none, 'hidden', this.there || Boolean(t));
    attr(this.body, 'hidden', !this.there && !t);
    attr(this.instances, 'hidden', !this.there);
    attr(this.tierPanel, 'hidden', !t);
    if (!t) return;
    swap(this.state, String(t.open), () => (t.open
      ? [h('span.badge', { 'data-level': 'bad' }, 'unavailable'), ' The store does not respond. This instance works independently: it makes calls that others may make too, and retries the store periodically.']
      : [h('span.badge', { 'data-level': 'good' }, 'healthy'), ' The store responds.']));
    const pending = t.pending || 0;
    attr(this.pending, 'hidden', pending === 0);
    swap(this.pending, `${pending} ${t.blocked}`, () => (pending === 0 ? [] : [h('span.badge', { 'data-level': 'warn' }, many(pending, 'invalidation') + ' pending'),
      t.blocked ? ' The store has not acknowledged an invalidation of everything. This instance does not use the store until it does.'
        : ' The store has not acknowledged them. Until it does, this instance does not use the entries of the store that they affect; other instances may serve old values.']));
    const items = [
      ['Leases requested', t.acquires, ''], ['Another’s value found', t.fresh, 'no call needed'], ['Lease granted', t.granted, 'this instance loads'],
      ['Held by another', t.held, 'waited for it'], ['Cooling', t.cooling, 'after a failure'], ['Values settled', t.settled, 'written with the lease'],
      ['Writes refused', t.refused, 'a newer lease existed'], ['Leases extended', t.extended, ''], ['Leases lost', t.lost_leases, ''],
      ['Store unavailable', t.unavailable, 'loaded without it'], ['Waits', t.waits, 'for another’s value'], ['Messages', t.pushes, 'from other instances'], ['Resets', t.resets, 'of the connection'],
      ['Invalidations queued', t.queued || 0, 'not acknowledged at first'],
    ];
    swap(this.tier, items.map((i) => i[1]).join(), () => items.map(([name, n, note]) =>
      h('div', null, h('dt', null, name), h('dd', null, count(n), ' ', h('small', null, note)))));
  }

  destroy() {
    if (this.poll) this.poll.stop();
  }
}

function instances(names) {
  const now = () => new Date().toISOString();
  return new Table({
    caption: 'Instances', key: (i) => i.id, sort: 'name', nothing: 'No instance has announced itself.', columns: [
      { name: 'name', head: 'Name', sort: (i) => i.name, make: (td) => { td.a = h('span'); td.b = h('span'); td.append(td.a, ' ', td.b); },
        draw: (td, i) => { text(td.a, i.name || i.id); swap(td.b, String(i.self), () => (i.self ? [h('span.badge', { 'data-level': 'plain' }, 'this one')] : [])); } },
      { name: 'version', head: 'Version', sort: (i) => i.version || null, cell: (i) => i.version || none },
      { name: 'up', head: 'Up', num: true, sort: (i) => -Date.parse(i.started), cell: (i) => (instant(i.started) ? age(between(i.started, now())) : none) },
      { name: 'seen', head: 'Last seen', num: true, sort: (i) => -Date.parse(i.seen), cell: (i) => ago(between(i.seen, now())), tone: (i) => (between(i.seen, now()) > late ? 'minds' : '') },
      ...names.map((n) => ({ name: n, head: n.charAt(0).toUpperCase() + n.slice(1).replaceAll('_', ' '), num: true, roomy: true, sort: (i) => (i.counts || {})[n], cell: (i) => count((i.counts || {})[n]) })),
      { name: 'address', head: 'Address', sort: (i) => i.address || null, make: (td) => { td.b = h('span'); td.append(td.b); }, draw: (td, i) => swap(td.b, i.address || none, () => [place(i.address)]) },
    ],
  });
}

// An address comes from another program: it is a link only if it is the URL of a page.
const place = (address) => (/^https?:\/\//.test(address || '') ? h('a', { href: address }, address) : address || none);

const ago = (s) => (s < 1.5 ? 'now' : age(s) + ' ago');
