// Jobs: the queues, a list by state, and the details of one job.
import { h, panel, empty, text, attr, swap } from './dom.js';
import { Table } from './table.js';
import { result } from './parts.js';
import { Job, stateBadge, lastOf } from './job.js';
import { poll } from './poll.js';
import { ask, part } from './api.js';
import { count, age, between, nanos, none, words, many } from './format.js';

const pause = 4000;
const states = ['queued', 'running', 'retrying', 'done', 'failed', 'dead', 'canceled'];
const most = 100;

export class Jobs {
  constructor(app) {
    this.app = app;
    this.title = 'Jobs';
    this.wanted = new Set(); // states; none: all
    this.queue = '';
    this.queues = queues();
    this.select = h('select', { 'aria-label': 'Queue', onchange: () => { this.queue = this.select.value; this.poll.now(); } });
    this.buttons = states.map((s) => h('button', { type: 'button', 'aria-pressed': 'false', onclick: () => this.want(s) }, s));
    this.said = h('div');
    this.table = list((job) => this.show(job));
    this.more = h('p.hint', { hidden: true });
    this.job = new Job(app, (words, level) => { this.said.replaceChildren(result(level, words)); this.poll.now(); });
    const filter = h('div.row', null, h('div.segments.states', { role: 'group', 'aria-label': 'States to show; none pressed shows all' }, this.buttons), this.select);
    this.list = panel('List', 'most recently changed first', filter, h('div.gap', null, this.table.el), this.more);
    this.none = h('div', { hidden: true }, empty('This program has no jobs.', 'A gateway has them if its configuration has a jobs section: it can then accept requests and respond later.'));
    this.body = h('div.stack', null, this.queues.el, this.said, this.job.el, this.list);
    this.el = h('div', null, h('div.page-head', null, h('h1', null, 'Jobs')), this.none, this.body);
    const there = app.store.hello.features.jobs;
    attr(this.none, 'hidden', there);
    attr(this.body, 'hidden', !there);
    this.poll = poll(pause, (signal) => this.load(signal), () => !there || app.resting);
  }

  want(s) {
    if (!this.wanted.delete(s)) this.wanted.add(s);
    this.buttons.forEach((b, i) => attr(b, 'aria-pressed', String(this.wanted.has(states[i]))));
    this.poll.now();
  }

  async load(signal) {
    const query = [`limit=${most}`];
    if (this.queue) query.push('queue=' + part(this.queue));
    if (this.wanted.size) query.push('state=' + [...this.wanted].join(','));
    const asked = query.join('&');
    try {
      const [page, all] = await Promise.all([ask('api/jobs?' + asked, { signal }), ask('api/jobs/queues', { signal })]);
      this.known = all.queues || [];
      this.table.draw(page.jobs || []);
      const which = words([...this.wanted], 'or');
      text(this.table.none, this.queue || which ? `No job${this.queue ? ' in ' + this.queue : ''}${which ? ' is ' + which : ''}.` : 'There are no jobs.');
      attr(this.more, 'hidden', !page.more);
      text(this.more, `${many(page.jobs.length, 'job')} shown, and there are more: select a state or a queue.`);
      this.problem('');
    } catch (err) {
      if (err.name === 'AbortError') throw err;
      this.problem(err.message);
    }
    this.draw();
  }

  problem(what) {
    if (what === this.wrong) return;
    this.wrong = what;
    if (what) this.said.replaceChildren(result('bad', 'The jobs cannot be read: ' + what));
    else if (this.said.dataset.problem) this.said.replaceChildren();
    this.said.dataset.problem = what ? 'yes' : '';
  }

  show(job) {
    this.said.replaceChildren();
    this.job.open(job);
  }

  draw() {
    const told = new Map((this.app.store.snapshot.queues || []).map((q) => [q.name, q]));
    for (const q of this.known || []) {
      if (!told.has(q.queue)) told.set(q.queue, { name: q.queue, waiting: q.waiting, running: q.taken, dead: q.dead, age_ns: q.oldest_ns });
    }
    const all = [...told.values()];
    this.queues.draw(all);
    swap(this.select, all.map((q) => q.name).join('\n'), () => [h('option', { value: '' }, 'All queues'), ...all.map((q) => h('option', { value: q.name, selected: q.name === this.queue }, q.name))]);
  }

  destroy() {
    this.poll.stop();
    this.job.close();
  }
}

function queues() {
  const table = new Table({
    caption: 'Queues', key: (q) => q.name, sort: 'name', nothing: 'No queue has been used yet.', columns: [
      { name: 'name', head: 'Queue', sort: (q) => q.name, cell: (q) => q.name },
      { name: 'waiting', head: 'Waiting', num: true, sort: (q) => q.waiting, cell: (q) => count(q.waiting), tone: (q) => (q.waiting ? '' : 'zero') },
      { name: 'age', head: 'Oldest', says: 'how long the oldest waiting job has waited', num: true, sort: (q) => q.age_ns, cell: (q) => (q.waiting && q.age_ns ? nanos(q.age_ns) : none) },
      { name: 'running', head: 'Taken', num: true, says: 'by a worker: running, or waiting for the next attempt', sort: (q) => q.running, cell: (q) => count(q.running), tone: (q) => (q.running ? '' : 'zero') },
      { name: 'dead', head: 'Dead', num: true, says: 'out of attempts', sort: (q) => q.dead, cell: (q) => count(q.dead), tone: (q) => (q.dead ? 'hurts' : 'zero') },
      { name: 'done', head: 'Done', num: true, roomy: true, says: 'by this instance, since its start', sort: (q) => q.done, cell: (q) => count(q.done) },
      { name: 'failed', head: 'Failed', num: true, roomy: true, says: 'attempts of this instance, since its start', sort: (q) => q.failed, cell: (q) => count(q.failed), tone: (q) => (q.failed ? '' : 'zero') },
    ],
  });
  const el = panel('Queues', 'done and failed are this instance’s, since its start', table.el);
  return { el, draw: (all) => table.draw(all) };
}

function list(open) {
  const when = (j) => {
    const t = lastOf(j);
    return t ? between(t, new Date().toISOString()) : NaN;
  };
  return new Table({
    caption: 'Jobs', key: (j) => j.queue + ' ' + j.id, nothing: 'There are no jobs.', columns: [
      { name: 'id', head: 'Job', make: (td) => { td.b = h('button.quiet.mono.job', { type: 'button', onclick: () => open(td.job) }); td.append(td.b); },
        draw: (td, j) => { td.job = j; text(td.b, j.id.slice(0, 12)); attr(td.b, 'title', 'Show ' + j.id); } },
      { name: 'state', head: 'State', sort: (j) => j.state, draw: (td, j) => stateBadge(td, j.state) },
      { name: 'queue', head: 'Queue', sort: (j) => j.queue, cell: (j) => j.queue },
      { name: 'attempt', head: 'Try', num: true, sort: (j) => j.attempt || 0, cell: (j) => count(j.attempt || 0) },
      { name: 'age', head: 'Changed', num: true, sort: when, cell: (j) => (Number.isFinite(when(j)) ? age(when(j)) + ' ago' : none) },
      { name: 'remark', head: 'Error or progress', wrap: true, cell: remark },
    ],
  });
}

function remark(j) {
  const p = j.progress;
  if (p && (j.state === 'running' || j.state === 'retrying')) {
    return (p.total ? `${Math.floor((p.done / p.total) * 100)}\u202f%, ` : '') + `${count(p.done)}${p.total ? ' of ' + count(p.total) : ''}${p.note ? ' ' + p.note : ''}`;
  }
  return (j.error || '').split('\n')[0];
}
