// Idempotency: calls with an Idempotency-Key whose outcome is unknown, which an operator settles.
import { h, panel, empty, text, attr } from './dom.js';
import { Table } from './table.js';
import { result } from './parts.js';
import { confirm } from './dialog.js';
import { poll } from './poll.js';
import { ask } from './api.js';
import { count, age, bytes, between, many } from './format.js';

const pause = 4000;

export class Idempotency {
  constructor(app) {
    this.app = app;
    this.title = 'Idempotency keys';
    this.said = h('div');
    this.use = h('p.hint');
    this.more = h('p.hint', { hidden: true });
    this.table = list((call, verdict) => this.settle(call, verdict), app.store.hello.features.keys);
    this.list = panel('Unknown outcomes', 'the oldest first', h('div.gap', null, this.table.el), this.more, this.use);
    const there = app.store.hello.features.idempotency;
    this.el = h('div', null, h('div.page-head', null, h('h1', null, 'Idempotency keys'),
      h('p.sub', null, 'A call has an unknown outcome if the service broke off or failed, or if weir ended while it ran. Look in the service whether it took effect.')),
    there ? h('div.stack', null, this.said, this.list)
      : empty('No route has idempotency.', 'A route with it runs the calls for each Idempotency-Key at most once.'));
    this.poll = poll(pause, (signal) => this.load(signal), () => !there || app.resting);
  }

  async load(signal) {
    if (!this.app.store.hello.features.idempotency) return;
    try {
      const page = await ask('api/idempotency', { signal });
      const calls = page.unknown || [];
      this.table.draw(calls);
      const left = (page.unknown_calls || 0) - calls.length;
      attr(this.more, 'hidden', !(left > 0 && calls.length >= 1000));
      text(this.more, `${many(left, 'more call')} not shown.`);
      const u = page.usage || {};
      text(this.use, `${count(u.keys || 0)} of ${count(u.max_keys || 0)} keys, and ${bytes(u.bytes || 0)} of ${bytes(u.max_bytes || 0)}, are in use. ${many(page.running || 0, 'call')} running.`);
      this.problem('');
    } catch (err) {
      if (err.name === 'AbortError') throw err;
      this.problem(err.message);
    }
  }

  problem(what) {
    if (what === this.wrong) return;
    this.wrong = what;
    if (what) this.said.replaceChildren(result('bad', 'The keys cannot be read: ' + what));
    else if (this.said.dataset.problem) this.said.replaceChildren();
    this.said.dataset.problem = what ? 'yes' : '';
  }

  async settle(call, verdict) {
    const yes = await confirm(verdict === 'done' ? {
      title: 'Did this call take effect?', action: 'It took effect', code: nameOf(call),
      lines: ['It never runs again: requests with its key get 409, because its response is not known.'],
    } : {
      title: 'Did this call certainly not take effect?', action: 'Let it run again', danger: true, code: nameOf(call),
      lines: ['The next request with its key runs it. If it has taken effect, that is twice.'],
    });
    if (!yes) return;
    try {
      await ask('api/idempotency', { method: 'POST', body: { id: call.id, settle: verdict } });
      this.said.replaceChildren(result('good', `${nameOf(call)} is settled as ${verdict === 'done' ? 'done' : 'not done'}.`));
    } catch (err) {
      this.said.replaceChildren(result('bad', `${err.status === 0 ? 'It is not known whether it was settled' : 'It was not settled'}: ${err.message}`));
    }
    this.poll.now();
  }

  draw() {}

  destroy() {
    this.poll.stop();
  }
}

const nameOf = (c) => `${c.call || 'call'} (${c.id.slice(0, 12)})`;

function list(settle, pathsAreShown) {
  const since = (t) => between(t, new Date().toISOString());
  return new Table({
    caption: 'Calls with an unknown outcome', key: (c) => c.id, nothing: 'No call has an unknown outcome.', columns: [
      { name: 'call', head: pathsAreShown ? 'Call' : 'Call (paths are hidden)', loose: true, sort: (c) => c.call, cell: nameOf },
      { name: 'route', head: 'Route', sort: (c) => c.route, cell: (c) => c.route },
      { name: 'age', head: 'Age', num: true, sort: (c) => since(c.since), cell: (c) => age(since(c.since)) },
      { name: 'left', head: 'Forgotten in', num: true, roomy: true, says: 'after that the key is free', sort: (c) => -since(c.until), cell: (c) => age(Math.max(0, -since(c.until))) },
      { name: 'reason', head: 'Reason', wrap: true, cell: (c) => c.reason },
      { name: 'settle', head: 'Settle', make: (td) => {
        const button = (verdict, words) => h('button', { type: 'button', onclick: () => settle(td.call, verdict) }, words);
        td.append(h('div.actions', null, button('done', 'Done…'), button('not_done', 'Not done…')));
      },
      draw: (td, c) => { td.call = c; } },
    ],
  });
}
