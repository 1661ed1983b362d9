// Purge: what would be purged is stated exactly before it is done.
import { h, panel, empty, attr, swap } from './dom.js';
import { result } from './parts.js';
import { confirm } from './dialog.js';
import { ask } from './api.js';
import { clock, many, words } from './format.js';

export class Purge {
  constructor(app) {
    this.app = app;
    this.title = 'Purge';
    const f = app.store.hello.features;
    this.routes = f.routes;
    this.said = h('div');
    this.el = h('div', null, h('div.page-head', null, h('h1', null, 'Purge'),
      h('p.sub', null, 'Purged responses are fetched from the source again. You confirm before anything is purged.')),
    f.purge ? h('div.two', null, panel('What to purge', null, this.form()), this.said)
      : empty('Nothing can be purged here.', 'The program has not set up purging for this console.'));
  }

  form() {
    const radio = (value, label, checked) => h('label', null, h('input', { type: 'radio', name: 'what', value, checked, onchange: () => this.show() }), label);
    const field = (label, input, hint) => h('div.field', null, h('label', { for: input.id }, label), input, h('p.hint', null, hint));
    this.url = h('input', { id: 'purge-url', type: 'url', spellcheck: 'false', autocomplete: 'off', placeholder: 'https://shop.example/p/42' });
    this.tags = h('textarea.short', { id: 'purge-tags', spellcheck: 'false', autocomplete: 'off', placeholder: 'product-42' });
    this.unit = h('select', { id: 'purge-unit' });
    this.expire = h('input', { type: 'checkbox', id: 'expire' });
    this.byURL = field('URL', this.url, 'As clients request it, with its query. All its variants are purged.');
    this.byTags = field('Tags, one per line', this.tags, 'Every entry with one of these tags is purged.');
    this.expiry = h('div.field', null, h('div.choices', null, h('label', null, this.expire, 'Expire only')), h('p.hint', null, 'Responses become stale instead of being removed: they are used only if the source fails.'));
    this.button = h('button.danger', { type: 'submit' }, 'Purge…');
    this.choice = h('div.choices', null, this.routes ? radio('url', 'One URL', true) : null, radio('tags', 'By tags', !this.routes), radio('all', 'Everything'));
    this.node = h('form.form', { onsubmit: (e) => { e.preventDefault(); this.ask(); } },
      this.routes ? null : field('Guard or method', this.unit, 'A method is purged with the others of its policy. A method that shares nothing has no entries.'),
      h('fieldset', null, h('legend', null, 'What'), this.choice), this.byURL, this.byTags, this.routes ? this.expiry : null, h('div.actions', null, this.button));
    this.show();
    return this.node;
  }

  what() {
    return this.choice.querySelector('input:checked').value;
  }

  show() {
    const what = this.what();
    attr(this.byURL, 'hidden', what !== 'url');
    attr(this.byTags, 'hidden', what !== 'tags');
    this.url.required = what === 'url';
    this.tags.required = what === 'tags';
  }

  order() {
    const what = this.what();
    const o = this.routes ? {} : { unit: this.unit.value };
    if (what === 'url') o.url = this.url.value.trim();
    if (what === 'tags') o.tags = [...new Set(this.tags.value.split('\n').map((t) => t.trim()).filter(Boolean))];
    if (what === 'all') o.all = true;
    if (this.routes && this.expire.checked) o.expire = true;
    return o;
  }

  async ask() {
    const o = this.order();
    if (o.tags && !o.tags.length) {
      this.tell('bad', 'Enter at least one tag.');
      return;
    }
    if (!await confirm(question(o, this.app.store, this.routes))) {
      this.tell('plain', 'Nothing was purged.');
      return;
    }
    this.button.disabled = true;
    try {
      this.tell('good', done(o, await ask('api/purge', { method: 'POST', body: o })));
    } catch (err) {
      const part = err.body && err.body.fleet === 'not reached';
      this.tell(part ? 'warn' : 'bad', part ? `${done(o, err.body)} But the fleet was not reached, and the other instances keep their entries: ${err.message}` : `${failed(err)}: ${err.message}`);
    }
    this.button.disabled = false;
  }

  tell(level, what) {
    this.said.replaceChildren(panel('Result', clock(Date.now() / 1000), result(level, what)));
  }

  draw() {
    if (this.routes || !this.unit) return;
    const names = (this.app.store.snapshot.units || []).map((u) => u.name);
    const chosen = this.unit.value;
    swap(this.unit, names.join('\n'), () => names.map((n) => h('option', { value: n, selected: n === chosen }, n)));
  }

  destroy() {}
}

// The question of the dialog. store has the number of entries.
function question(o, store, routes) {
  const fleet = store.hello.features.fleet ? ', here and in all other instances of the fleet' : '';
  const verb = o.expire ? 'marked stale' : 'purged';
  const after = o.expire ? 'It is used only if the source fails; the next request for it makes a call.' : 'The next request for it makes a call to the source, and there is no stale response to serve if it fails.';
  const of = o.unit ? ` of ${o.unit}` : '';
  if (o.url) {
    return { title: o.expire ? 'Mark this URL stale?' : 'Purge this URL?', action: o.expire ? 'Mark it stale' : 'Purge it', danger: true, lines: [`All stored variants of it will be ${verb}${fleet}.`, after], code: o.url };
  }
  if (o.tags) {
    return { title: `${o.expire ? 'Mark stale' : 'Purge'} everything with ${o.tags.length === 1 ? 'this tag' : 'one of these tags'}?`, action: o.expire ? 'Mark it stale' : 'Purge it', danger: true,
      lines: [`Every entry${of} that has ${o.tags.length === 1 ? 'this tag' : `one of ${many(o.tags.length, 'tag')}`} will be ${verb}${fleet}.`, after], code: o.tags.join('\n') };
  }
  const stores = store.snapshot.stores || [];
  const entries = routes ? stores.reduce((n, s) => n + s.entries, 0) : (store.unit(o.unit) || {}).entries || 0;
  const calls = routes ? 'all routes' : o.unit;
  return { title: o.expire ? 'Mark everything stale?' : 'Purge everything?', action: o.expire ? 'Mark everything stale' : 'Purge everything', danger: true, word: 'all', lines: [
    `${entries ? `All ${many(entries, routes ? 'response' : 'entry', routes ? 'responses' : 'entries')}${of}` : `Everything${of}`} will be ${verb}${fleet}.`,
    `From then on each request of ${calls} makes a call to the source or waits for one, until the memory has filled again. Calls are still limited and shared; some requests may be refused.`] };
}

// The effect of a failed purge, as far as it is known.
function failed(err) {
  if (err.status === 0) return 'It may or may not have been done';
  return err.status >= 500 ? 'It was not done, or not everywhere' : 'It was not done';
}

// The effect of a purge.
function done(o, r) {
  const verb = o.expire ? 'marked stale' : 'purged';
  const of = o.unit ? ` of ${o.unit}` : '';
  const fleet = r && r.fleet === 'purged' ? ' The fleet was notified.' : '';
  if (o.tags) return `Every entry with ${o.tags.length === 1 ? `the tag ${o.tags[0]}` : `one of the tags ${words(o.tags, 'or')}`}${of} is ${verb}.${fleet}`;
  if (r && Number.isFinite(r.responses)) {
    return r.responses === 0 && o.url ? `Nothing was stored for it here.${fleet}` : `${many(r.responses, 'response')} ${r.responses === 1 ? 'was' : 'were'} ${verb}.${fleet}`;
  }
  return `Everything${of} was ${verb}.${fleet}`;
}
