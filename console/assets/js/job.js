// The page of one job: its state, why it failed, and what can be done.
import { h, panel, attr, swap, text } from './dom.js';
import { result } from './parts.js';
import { confirm } from './dialog.js';
import { poll } from './poll.js';
import { link } from './router.js';
import { ask, part } from './api.js';
import { instant, age, between, duration, count } from './format.js';

const levels = { queued: 'plain', running: 'plain', retrying: 'warn', done: 'good', failed: 'bad', dead: 'bad', canceled: 'plain' };

// What can be done, to jobs in which states.
export const verbs = {
  retry: { name: 'Retry', past: 'queued again', states: ['failed', 'dead', 'canceled'] },
  cancel: { name: 'Cancel', past: 'canceled', states: ['queued', 'running', 'retrying'] },
};

export const stateBadge = (td, state) => swap(td, state, () => h('span.badge', { 'data-level': levels[state] || 'plain' }, state));

// When it last changed, according to its times.
export const lastOf = (j) => [j.finished, j.started, j.submitted].find((t) => instant(t));

// What a job is called: its request, or the beginning of its ID.
export const nameOf = (j) => j.label || j.id.slice(0, 12);

export class Job {
  constructor(app, queue, id) {
    this.app = app;
    this.job = { queue, id };
    this.title = 'Job ' + id.slice(0, 8);
    this.name = h('h1.mono', null, id.slice(0, 12));
    this.state = h('span.live');
    this.said = h('div');
    this.body = h('div');
    this.owner = h('span');
    this.panel = panel('Job', id, this.body);
    this.panel.classList.add('live');
    this.el = h('div', null, h('div.page-head', null, h('a', { href: link('jobs') }, 'Jobs'), h('span.sub', { 'aria-hidden': 'true' }, '/'), this.name, this.state),
      h('div.stack', null, this.said, this.panel));
    this.poll = poll(2000, (signal) => this.load(signal), () => app.resting);
  }

  async load(signal) {
    try {
      this.job = await ask(this.path(), { signal });
      this.wrong = '';
    } catch (err) {
      if (err.name === 'AbortError') throw err;
      this.wrong = err.status === 404 ? 'There is no such job. It may have been removed: finished jobs are kept for a limited time.' : 'The job cannot be read: ' + err.message;
    }
    if (this.wrong) this.tell('bad', this.wrong);
    else if (this.told === 'bad') this.said.replaceChildren();
    this.draw();
  }

  tell(level, what) {
    this.told = level;
    this.said.replaceChildren(result(level, what));
  }

  path(verb) {
    return `api/jobs/${part(this.job.queue)}/${part(this.job.id)}` + (verb ? '/' + verb : '');
  }

  draw() {
    const j = this.job;
    attr(this.panel, 'hidden', !j.state);
    if (!j.state) return;
    text(this.name, nameOf(j));
    stateBadge(this.state, j.state);
    swap(this.body, JSON.stringify(j) + (this.busy || '') + (this.showOwner || '') + Math.floor(Date.now() / 10000), () => [this.actions(j), this.why(j), this.facts(j), this.attempts(j), this.log(j)].filter(Boolean));
  }

  facts(j) {
    const now = new Date().toISOString();
    const at = (t) => (instant(t) ? [instant(t), h('small', null, ' ' + age(between(t, now)) + ' ago')] : null);
    const took = instant(j.finished) && instant(j.started) ? duration(Math.max(0, between(j.started, j.finished))) : null;
    const state = h('span');
    stateBadge(state, j.state);
    const keys = this.app.store.hello.features.keys;
    const owner = j.owner && (this.showOwner ? j.owner : h('button.quiet', { type: 'button', onclick: () => { this.showOwner = true; this.draw(); } }, 'Show the owner'));
    const items = [['State', state], ['Request', j.label ? j.label + (keys ? '' : ', path hidden') : null], ['Queue', j.queue], ['Attempt', count(j.attempt || 0)], ['Submitted', at(j.submitted)], ['Started', at(j.started)],
      ['Finished', at(j.finished)], ['Took', took], ['Next attempt', instant(j.not_before) && j.state === 'retrying' ? instant(j.not_before) : null],
      ['Progress', j.progress ? `${count(j.progress.done)}${j.progress.total ? ' of ' + count(j.progress.total) : ''} ${j.progress.note || ''}` : null],
      ['Owner', owner], ['Key', keys ? j.key : null], ['Durability', j.durability], ['ID', h('span.mono', null, j.id)]];
    return h('dl.facts.job-facts.gap', null, items.filter(([, v]) => v !== null && v !== undefined && v !== '')
      .map(([name, v]) => h('div', null, h('dt', null, name), h('dd', null, v))));
  }

  why(j) {
    if (!j.error) return null;
    return h('div.gap', null, h('h3', null, j.state === 'retrying' || j.state === 'running' ? 'Why the last attempt failed' : 'Why'), h('pre.error', null, j.error));
  }

  attempts(j) {
    if (!(j.history || []).length) return null;
    return h('div.gap', null, h('h3', null, 'Attempts that failed'), h('ol.history', null, [...j.history].reverse().map((a) =>
      h('li', null, h('span.hint', null, `Attempt ${a.attempt}, ${instant(a.ended)}${a.class ? ', ' + a.class : ''}${a.worker ? ', by ' + a.worker : ''}`), h('pre.error', null, a.error)))));
  }

  log(j) {
    if (!j.logged) return null;
    const lines = j.log || [];
    const left = j.logged - lines.length;
    return h('div.gap', null, h('h3', null, 'Log'), left > 0 ? h('p.hint', null, `The ${count(left)} before these are not kept.`) : null,
      h('pre.job-log', { tabindex: '0', role: 'region', 'aria-label': 'Log of the job' }, lines.map((l) => `${instant(l.at)}  attempt ${l.attempt}  ${l.text}`).join('\n')));
  }

  actions(j) {
    const verb = Object.keys(verbs).find((v) => verbs[v].states.includes(j.state));
    if (!verb) return null;
    const button = h(verb === 'retry' ? 'button.primary' : 'button', { type: 'button', disabled: Boolean(this.busy), onclick: () => this.act(verb) }, verb === 'retry' ? 'Retry it' : 'Cancel it');
    return h('div.actions.gap', null, button);
  }

  async act(verb) {
    const j = this.job;
    const code = nameOf(j) === j.id.slice(0, 12) ? j.id : nameOf(j) + '\n' + j.id;
    const yes = await confirm(verb === 'retry'
      ? { title: 'Retry this job?', action: 'Retry it', lines: [`It is ${j.state}. It will be queued again in ${j.queue}, and start over from its first attempt.`], code }
      : { title: 'Cancel this job?', action: 'Cancel it', danger: true, lines: [`It is ${j.state}.${j.state === 'running' ? ' Its attempt is canceled; what it has already done is not undone.' : ' It will not run.'} It can be retried later.`], code });
    if (!yes) return;
    this.busy = verb;
    this.draw();
    try {
      const done = await ask(this.path(verb), { method: 'POST' });
      this.tell('good', `Job ${j.id} of ${j.queue} was ${done.did || verbs[verb].past}.`);
    } catch (err) {
      const not = err.status === 0 ? 'It is not known whether it was' : 'It was not';
      this.tell('bad', `${not} ${verbs[verb].past}, job ${j.id} of ${j.queue}: ${err.message}`);
      this.told = 'failed action';
    }
    this.busy = '';
    this.poll.now();
  }

  destroy() {
    this.poll.stop();
  }
}
