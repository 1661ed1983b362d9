// Explain: what would happen to a request, and why.
import { h, panel, empty, swap, text } from './dom.js';
import { Table } from './table.js';
import { result } from './parts.js';
import { parse, headerOf } from './curl.js';
import { ask } from './api.js';
import { bytes, many, words } from './format.js';

const answers = {
  hit: ['good', 'It is served from the store.'],
  stale: ['good', 'It is served immediately from the store, with a stale response.'],
  join: ['good', 'It waits for a call that is in flight, and shares its response.'],
  lead: ['plain', 'It makes a call to the source, which others may join.'],
  call: ['warn', 'It makes its own call to the source.'],
  pass: ['warn', 'It is passed through to the source, without the cache.'],
  error: ['bad', 'It gets an error response.'],
};

export class Explain {
  constructor(app) {
    this.title = 'Explain';
    this.there = app.store.hello.features.explain;
    this.paste = h('textarea', { id: 'paste', spellcheck: 'false', autocomplete: 'off', placeholder: "https://shop.example/p/42\n\ncurl 'https://shop.example/p/42' -H 'Accept: application/json'", oninput: () => this.read() });
    this.method = h('input', { id: 'method', type: 'text', value: 'GET', spellcheck: 'false', autocapitalize: 'characters', required: true, size: 8 });
    this.url = h('input', { id: 'url', type: 'url', required: true, spellcheck: 'false', autocomplete: 'off', placeholder: 'https://…' });
    this.headers = h('textarea.short', { id: 'headers', spellcheck: 'false', autocomplete: 'off', placeholder: 'Accept: application/json' });
    this.note = h('p.hint', { role: 'status' });
    this.button = h('button.primary', { type: 'submit' }, 'Explain');
    this.answer = h('div.stack', { 'aria-live': 'polite' });
    const field = (label, input, hint) => h('div.field', null, h('label', { for: input.id }, label), input, hint ? h('p.hint', null, hint) : null);
    const form = h('form.form', { onsubmit: (e) => { e.preventDefault(); this.send(); } },
      field('Paste a URL, or a whole curl command', this.paste, 'For example from a browser’s “Copy as cURL (bash)”. It only fills in the fields below: nothing is run, and no body is sent.'),
      this.note,
      h('div.row', null, h('div.field.method', null, h('label', { for: 'method' }, 'Method'), this.method), h('div.wide', null, field('URL, as clients request it', this.url))),
      field('Headers, one per line', this.headers), h('div.actions', null, this.button));
    this.el = h('div', null, h('div.page-head', null, h('h1', null, 'Explain'), h('p.sub', null, 'What would happen to a request now, and why. No request is sent, and nothing changes.')),
      this.there ? h('div.two', null, panel('The request', null, form), this.answer)
        : empty('There is nothing to explain here.', 'Only the requests of a gateway or an HTTP handler can be explained; a Guard depends on a key and not on a request.'));
  }

  // Fills the fields from the pasted text.
  read() {
    const r = parse(this.paste.value);
    if (!r) {
      text(this.note, this.paste.value.trim() ? 'This is neither a URL nor a curl command.' : '');
      return;
    }
    this.method.value = r.method;
    this.url.value = r.url;
    this.headers.value = r.headers.map(([n, v]) => `${n}: ${v}`).join('\n');
    const said = [`Read: ${r.method}, ${many(r.headers.length, 'header')}.`];
    if (r.body) said.push('Its body is left out.');
    if (r.unknown.length) said.push(`Unknown options, left out: ${words(r.unknown)}.`);
    text(this.note, said.join(' '));
  }

  async send() {
    const headers = {};
    const wrong = [];
    for (const line of this.headers.value.split('\n').filter((l) => l.trim())) {
      const header = headerOf(line);
      if (header) (headers[header[0]] = headers[header[0]] || []).push(header[1]);
      else wrong.push(line.trim());
    }
    if (wrong.length) {
      this.answer.replaceChildren(result('bad', `This is no header: ${wrong[0]}`));
      return;
    }
    this.button.disabled = true;
    try {
      this.show(await ask('api/explain', { method: 'POST', body: { method: this.method.value.trim().toUpperCase(), url: this.url.value.trim(), headers } }));
    } catch (err) {
      this.answer.replaceChildren(result('bad', err.message));
    }
    this.button.disabled = false;
  }

  show(e) {
    const [level, says] = answers[e.answer] || ['plain', ''];
    const first = panel('What would happen', e.route ? `route ${e.route}` : null,
      h('p.verdict', null, h('span.badge', { 'data-level': level }, e.answer || 'nothing'), ' ', e.answer ? says : e.route === '' ? 'No route matches it.' : says),
      h('ol.steps.gap', null, (e.steps || []).map((s) => h('li', null, h('span', null, s)))),
      e.key ? h('p.hint.gap', null, 'Key: ', h('code', null, e.key)) : null);
    const second = panel('Stored responses for this URL', many((e.stored || []).length, 'variant'), this.stored(e.stored || []));
    this.answer.replaceChildren(first, second);
  }

  stored(all) {
    const table = new Table({
      caption: 'Stored variants', key: (s) => s.n, nothing: 'Nothing is stored.', columns: [
        { name: 'status', head: 'Status', cell: (s) => String(s.status) },
        { name: 'state', head: 'State', draw: (td, s) => swap(td, 'made', () => h('span.badges', null,
          s.selected ? h('span.badge', { 'data-level': 'good' }, 'for this request') : null,
          s.purged ? h('span.badge', { 'data-level': 'warn' }, 'expired') : null,
          h('span.badge', { 'data-level': 'plain' }, String(s.ttl).startsWith('-') ? 'stale' : 'fresh'))) },
        { name: 'bytes', head: 'Body', num: true, cell: (s) => bytes(s.bytes) },
        { name: 'age', head: 'Age', num: true, cell: (s) => s.age },
        { name: 'ttl', head: 'Fresh for', num: true, cell: (s) => (String(s.ttl).startsWith('-') ? 'stale for ' + String(s.ttl).slice(1) : s.ttl) },
        { name: 'vary', head: 'Varies by', loose: true, cell: (s) => (s.vary || []).join(', ') || 'nothing' },
        { name: 'tags', head: 'Tags', loose: true, cell: (s) => (s.tags || []).join(', ') || 'none' },
      ],
    });
    table.draw(all.map((s, n) => ({ ...s, n })));
    return table.el;
  }

  draw() {}

  destroy() {}
}
