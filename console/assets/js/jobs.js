// Jobs: the queues, and a list by state with actions on many jobs. Each job has a
// page, see job.js.
import { h, panel, empty, text, attr, swap } from './dom.js';
import { Table } from './table.js';
import { result } from './parts.js';
import { stateBadge, lastOf, verbs, nameOf } from './job.js';
import { confirm } from './dialog.js';
import { poll } from './poll.js';
import { link } from './router.js';
import { ask, part } from './api.js';
import { count, age, between, nanos, none, words, many } from './format.js';

const pause = 4000;
const states = ['queued', 'running', 'retrying', 'done', 'failed', 'dead', 'canceled'];
const most = 100;

export class Jobs {
  constructor(app) {
    this.app = app;
    this.title = 'Jobs';
    const { state = '', queue = '' } = app.query || {};
    this.wanted = new Set(state.split(',').filter((s) => states.includes(s))); // none: all
    this.queue = queue;
    this.chosen = new Map(); // jobs with a tick, by key
    this.queues = queues();
    this.select = h('select', { 'aria-label': 'Queue', onchange: () => { this.queue = this.select.value; this.filter(); } });
    this.buttons = states.map((s) => h('button', { type: 'button', 'aria-pressed': String(this.wanted.has(s)), onclick: () => this.want(s) }, s, ' ', h('span.count')));
    this.said = h('div');
    this.acts = Object.keys(verbs).map((verb) => h(verb === 'retry' ? 'button.primary' : 'button', { type: 'button', hidden: true, onclick: () => this.act(verb) }));
    this.hint = h('span.hint');
    this.table = list((j, on) => this.choose(j, on), (j) => this.chosen.has(keyOf(j)), app.store.hello.features.keys);
    this.more = h('p.hint', { hidden: true });
    this.counted = h('p.hint', { hidden: true });
    const filter = h('div.row', null, h('div.segments.states', { role: 'group', 'aria-label': 'States to show; none pressed shows all' }, this.buttons), this.select);
    this.list = panel('List', 'most recently changed first', filter, h('div.actions.gap', null, this.acts, this.hint), h('div.gap.jobs', null, this.table.el), this.more, this.counted);
    this.none = h('div', { hidden: true }, empty('This program has no jobs.', 'A gateway has them if its configuration has a jobs section: it can then accept requests and respond later.'));
    this.body = h('div.stack', null, this.queues.el, this.said, this.list);
    this.el = h('div', null, h('div.page-head', null, h('h1', null, 'Jobs')), this.none, this.body);
    const there = app.store.hello.features.jobs;
    attr(this.none, 'hidden', there);
    attr(this.body, 'hidden', !there);
    this.poll = poll(pause, (signal) => this.load(signal), () => !there || app.resting);
  }

  want(s) {
    if (!this.wanted.delete(s)) this.wanted.add(s);
    this.buttons.forEach((b, i) => attr(b, 'aria-pressed', String(this.wanted.has(states[i]))));
    this.filter();
  }

  // The filter is part of the address, so that it can be shared.
  filter() {
    this.chosen.clear();
    const query = new URLSearchParams();
    if (this.wanted.size) query.set('state', [...this.wanted].join(','));
    if (this.queue) query.set('queue', this.queue);
    history.replaceState(null, '', link('jobs') + (query.size ? '?' + query : ''));
    this.poll.now();
  }

  choose(j, on) {
    if (on) this.chosen.set(keyOf(j), j);
    else this.chosen.delete(keyOf(j));
    this.drawActs();
  }

  async load(signal) {
    const query = [`limit=${most}`, 'counts=true'];
    if (this.queue) query.push('queue=' + part(this.queue));
    if (this.wanted.size) query.push('state=' + [...this.wanted].join(','));
    const asked = query.join('&');
    try {
      const [page, all] = await Promise.all([ask('api/jobs?' + asked, { signal }), ask('api/jobs/queues', { signal })]);
      this.known = all.queues || [];
      this.counts = page.counts || {};
      this.countsAge = (page.counts_age_ns || 0) / 1e9;
      this.jobs = page.jobs || [];
      const there = new Map(this.jobs.map((j) => [keyOf(j), j]));
      for (const key of [...this.chosen.keys()]) there.has(key) ? this.chosen.set(key, there.get(key)) : this.chosen.delete(key);
      this.table.draw(this.jobs);
      const which = words([...this.wanted], 'or');
      text(this.table.none, this.queue || which ? `No job${this.queue ? ' in ' + this.queue : ''}${which ? ' is ' + which : ''}.` : 'There are no jobs.');
      attr(this.more, 'hidden', !page.more);
      text(this.more, `${many(this.jobs.length, 'job')} shown, and there are more: select a state or a queue.`);
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

  // What a verb would act on: the jobs with a tick, or else all in the selected states.
  target(verb) {
    const can = verbs[verb].states;
    if (this.chosen.size) {
      const jobs = [...this.chosen.values()].filter((j) => can.includes(j.state));
      return { n: jobs.length, body: { verb, jobs: jobs.map((j) => ({ queue: j.queue, id: j.id })) }, words: many(jobs.length, 'selected job') };
    }
    const of = can.filter((s) => this.wanted.has(s) && (this.counts || {})[s] > 0);
    const n = of.reduce((sum, s) => sum + this.counts[s], 0);
    return { n, body: { verb, queue: this.queue, states: of, count: n }, words: `${count(n)} ${words(of, 'and')} ${n === 1 ? 'job' : 'jobs'}${this.queue ? ' of ' + this.queue : ''}` };
  }

  drawActs() {
    let any = false;
    Object.keys(verbs).forEach((verb, i) => {
      const { n, words: what } = this.target(verb);
      attr(this.acts[i], 'hidden', n === 0);
      text(this.acts[i], `${verbs[verb].name} ${what}…`);
      any = any || n > 0;
    });
    const waits = (this.jobs || []).length > 0 && !any;
    attr(this.hint, 'hidden', !waits);
    text(this.hint, 'To retry or cancel many jobs together, select a state above, or tick jobs in the list.');
  }

  async act(verb) {
    const { n, body, words: what } = this.target(verb);
    const v = verbs[verb];
    const yes = await confirm({ title: `${v.name} ${what}?`, action: `${v.name} ${count(n)}`, danger: verb === 'cancel', lines: [
      verb === 'retry' ? `${n === 1 ? 'It' : 'Each of them'} will be queued again, and start over from its first attempt.`
        : `${n === 1 ? 'It' : 'None of them'} will ${n === 1 ? 'not ' : ''}start again. Attempts that run are canceled; what they have already done is not undone. Canceled jobs can be retried.`,
      ...(this.chosen.size ? [] : ['If their number has changed in the meantime, nothing is done.'])] });
    if (!yes) return;
    try {
      const r = await ask('api/jobs', { method: 'POST', body });
      const failed = r.failed ? ` ${many(r.failed, 'job')} ${r.failed === 1 ? 'was' : 'were'} not: ${(r.errors || []).join('; ')}.` : '';
      this.said.replaceChildren(result(r.failed ? 'warn' : 'good', `${many(r.done, 'job')} ${r.done === 1 ? 'was' : 'were'} ${r.did}.${failed}`));
      this.chosen.clear();
    } catch (err) {
      this.said.replaceChildren(result('bad', `${err.status === 0 ? 'It is not known whether anything was done' : `${what} ${n === 1 ? 'was' : 'were'} not ${v.past}`}: ${err.message}`));
    }
    this.poll.now();
  }

  draw() {
    const told = new Map((this.app.store.snapshot.queues || []).map((q) => [q.name, q]));
    for (const q of this.known || []) {
      if (!told.has(q.queue)) told.set(q.queue, { name: q.queue, waiting: q.waiting, running: q.taken, dead: q.dead, age_ns: q.oldest_ns, paused: q.paused });
    }
    const all = [...told.values()];
    this.queues.draw(all);
    states.forEach((s, i) => text(this.buttons[i].querySelector('.count'), this.counts ? count(this.counts[s] || 0) : ''));
    attr(this.counted, 'hidden', !(this.countsAge >= 5));
    text(this.counted, `With so many jobs, they are counted less often; last ${age(this.countsAge)} ago.`);
    this.drawActs();
    swap(this.select, all.map((q) => q.name).join('\n'), () => [h('option', { value: '' }, 'All queues'), ...all.map((q) => h('option', { value: q.name, selected: q.name === this.queue }, q.name))]);
  }

  destroy() {
    this.poll.stop();
  }
}

const keyOf = (j) => j.queue + ' ' + j.id;

// A queue's name, marked if the queue is paused.
function drawQueue(td, q) {
  swap(td, q.name + ' ' + Boolean(q.paused), () => [q.name, ...(q.paused ? [' ', h('span.badge', { 'data-level': 'warn', title: `None of its jobs starts until “weir jobs resume ${q.name}”` }, 'paused')] : [])]);
}

function queues() {
  const table = new Table({
    caption: 'Queues', key: (q) => q.name, sort: 'name', nothing: 'No queue has been used yet.', columns: [
      { name: 'name', head: 'Queue', sort: (q) => q.name, draw: drawQueue },
      { name: 'waiting', head: 'Waiting', num: true, sort: (q) => q.waiting, cell: (q) => count(q.waiting), tone: (q) => (q.waiting ? '' : 'zero') },
      { name: 'age', head: 'Oldest', says: 'how long the oldest waiting job has waited', num: true, sort: (q) => q.age_ns, cell: (q) => (q.waiting && q.age_ns ? nanos(q.age_ns) : none) },
      { name: 'running', head: 'Taken', num: true, says: 'by a worker: running, or waiting for the next attempt', sort: (q) => q.running, cell: (q) => count(q.running), tone: (q) => (q.running ? '' : 'zero') },
      { name: 'dead', head: 'Dead', num: true, says: 'out of attempts', sort: (q) => q.dead, cell: (q) => count(q.dead), tone: (q) => (q.dead ? 'hurts' : 'zero') },
      { name: 'done', head: 'Done', num: true, roomy: true, says: 'by this instance, since its start', sort: (q) => q.done, cell: (q) => count(q.done) },
      { name: 'failed', head: 'Failed', num: true, roomy: true, says: 'for good, failed or dead, by this instance, since its start', sort: (q) => q.failed, cell: (q) => count(q.failed), tone: (q) => (q.failed ? '' : 'zero') },
    ],
  });
  const el = panel('Queues', 'done and failed are this instance’s, since its start', table.el);
  return { el, draw: (all) => table.draw(all) };
}

function list(choose, chosen, keysAreShown) {
  const when = (j) => {
    const t = lastOf(j);
    return t ? between(t, new Date().toISOString()) : NaN;
  };
  return new Table({
    caption: 'Jobs', key: keyOf, nothing: 'There are no jobs.', columns: [
      { name: 'job', head: keysAreShown ? 'Job' : 'Job (paths are hidden)', loose: true, sort: nameOf, make: (td) => {
        td.box = h('input', { type: 'checkbox', onchange: () => choose(td.job, td.box.checked) });
        td.a = h('a.job.mono');
        td.short = h('span.sub-name.mono');
        td.append(td.box, ' ', td.a, td.short);
      },
      draw: (td, j) => {
        td.job = j;
        td.box.checked = chosen(j);
        attr(td.box, 'aria-label', `Select job ${j.id.slice(0, 8)}`);
        text(td.a, nameOf(j));
        td.a.href = link('jobs', j.queue, j.id);
        attr(td.a, 'title', 'Show ' + j.id);
        text(td.short, j.label ? j.id.slice(0, 8) : '');
      } },
      { name: 'state', head: 'State', sort: (j) => j.state, draw: (td, j) => stateBadge(td, j.state) },
      { name: 'age', head: 'Changed', num: true, sort: when, cell: (j) => (Number.isFinite(when(j)) ? age(when(j)) + ' ago' : none) },
      { name: 'remark', head: 'Error or progress', wrap: true, cell: remark },
      { name: 'attempt', head: 'Try', num: true, sort: (j) => j.attempt || 0, cell: (j) => count(j.attempt || 0) },
      { name: 'queue', head: 'Queue', sort: (j) => j.queue, cell: (j) => j.queue },
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
