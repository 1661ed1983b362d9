// One job: its state, why it failed, and what can be done.
import { h, panel, attr, swap, text } from './dom.js';
import { confirm } from './dialog.js';
import { poll } from './poll.js';
import { ask, part } from './api.js';
import { instant, age, between, duration, count } from './format.js';

const levels = { queued: 'plain', running: 'good', retrying: 'warn', done: 'good', failed: 'bad', dead: 'bad', canceled: 'plain' };
const can = { retry: ['failed', 'dead', 'canceled'], cancel: ['queued', 'running', 'retrying'] };

export const stateBadge = (td, state) => swap(td, state, () => h('span.badge', { 'data-level': levels[state] || 'plain' }, state));

// When it last changed, according to its times.
export const lastOf = (j) => [j.finished, j.started, j.submitted].find((t) => instant(t));

export class Job {
  // said receives the result of an action: words and a level.
  constructor(app, said) {
    this.app = app;
    this.said = said;
    this.body = h('div');
    this.el = panel('Job', ' ', this.body);
    this.el.classList.add('live');
    this.hint = this.el.head.querySelector('.hint');
    this.el.head.append(h('span.right', null, h('button', { type: 'button', onclick: () => this.close() }, 'Close')));
    this.el.hidden = true;
  }

  open(job) {
    this.close();
    this.job = job;
    this.el.hidden = false;
    this.draw();
    this.el.scrollIntoView({ block: 'nearest' });
    this.poll = poll(2000, (signal) => this.load(signal), () => this.app.resting);
  }

  async load(signal) {
    try {
      this.job = await ask(this.path(), { signal });
    } catch (err) {
      if (err.name === 'AbortError') throw err;
      if (err.status === 404) {
        this.said(`Job ${this.job.id} no longer exists.`, 'warn');
        this.close();
        return;
      }
      this.said('The job cannot be read: ' + err.message, 'bad');
    }
    this.draw();
  }

  path(verb) {
    return `api/jobs/${part(this.job.queue)}/${part(this.job.id)}` + (verb ? '/' + verb : '');
  }

  draw() {
    const j = this.job;
    text(this.hint, j.id);
    swap(this.body, JSON.stringify(j) + (this.busy || '') + Math.floor(Date.now() / 10000), () => [this.facts(j), this.errors(j), this.actions(j)].filter(Boolean));
  }

  facts(j) {
    const now = new Date().toISOString();
    const at = (t) => (instant(t) ? [instant(t), h('small', null, ' ' + age(between(t, now)) + ' ago')] : null);
    const took = instant(j.finished) && instant(j.started) ? duration(Math.max(0, between(j.started, j.finished))) : null;
    const state = h('span');
    stateBadge(state, j.state);
    const items = [['State', state], ['Queue', j.queue], ['Attempt', count(j.attempt || 0)], ['Submitted', at(j.submitted)], ['Started', at(j.started)],
      ['Finished', at(j.finished)], ['Took', took], ['Next attempt', instant(j.not_before) && j.state === 'retrying' ? instant(j.not_before) : null],
      ['Progress', j.progress ? `${count(j.progress.done)}${j.progress.total ? ' of ' + count(j.progress.total) : ''} ${j.progress.note || ''}` : null],
      ['Owner', j.owner && (j.owner.length > 20 ? h('span', { title: j.owner }, j.owner.slice(0, 16) + '…') : j.owner)], ['Key', this.app.store.hello.features.keys ? j.key : null], ['Durability', j.durability]];
    return h('dl.facts.job-facts', null, items.filter(([, v]) => v !== null && v !== undefined && v !== '')
      .map(([name, v]) => h('div', null, h('dt', null, name), h('dd', null, v))));
  }

  errors(j) {
    if (!j.error && !(j.history || []).length) return null;
    return h('div.gap.stack', null,
      j.error ? h('div', null, h('h3', null, j.state === 'retrying' || j.state === 'running' ? 'Why the last attempt failed' : 'Why'), h('pre.error', null, j.error)) : null,
      (j.history || []).length ? h('div', null, h('h3', null, 'Attempts that failed'), h('ol.history', null, [...j.history].reverse().map((a) =>
        h('li', null, h('span.hint', null, `Attempt ${a.attempt}, ${instant(a.ended)}${a.class ? ', ' + a.class : ''}${a.worker ? ', by ' + a.worker : ''}`), h('pre.error', null, a.error))))) : null);
  }

  actions(j) {
    const verb = Object.keys(can).find((v) => can[v].includes(j.state));
    if (!verb) return null;
    const button = h(verb === 'retry' ? 'button.primary' : 'button', { type: 'button', disabled: Boolean(this.busy), onclick: () => this.act(verb) }, verb === 'retry' ? 'Retry it' : 'Cancel it');
    return h('div.actions.gap', null, button);
  }

  async act(verb) {
    const j = this.job;
    const yes = await confirm(verb === 'retry'
      ? { title: 'Retry this job?', action: 'Retry it', lines: [`It is ${j.state}. It will be queued again in ${j.queue}, and start over from its first attempt.`], code: j.id }
      : { title: 'Cancel this job?', action: 'Cancel it', danger: true, lines: [`It is ${j.state}.${j.state === 'running' ? ' Its attempt is canceled; what it has already done is not undone.' : ' It will not run.'} It can be retried later.`], code: j.id });
    if (!yes) return;
    this.busy = verb;
    this.draw();
    try {
      const done = await ask(this.path(verb), { method: 'POST' });
      this.said(`Job ${j.id} of ${j.queue} was ${done.did || (verb === 'retry' ? 'queued again' : 'canceled')}.`, 'good');
    } catch (err) {
      const not = err.status === 0 ? 'It is not known whether it was' : 'It was not';
      this.said(`${not} ${verb === 'retry' ? 'queued again' : 'canceled'}, job ${j.id} of ${j.queue}: ${err.message}`, 'bad');
    }
    this.busy = '';
    if (this.poll) this.poll.now();
  }

  close() {
    if (this.poll) this.poll.stop();
    this.poll = null;
    attr(this.el, 'hidden', true);
  }
}
