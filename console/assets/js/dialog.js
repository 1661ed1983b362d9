// A confirmation before an action that cannot be undone.
import { h } from './dom.js';

// confirm shows the question, and resolves to whether the user confirmed. lines are
// sentences, code is shown literally, and word, if given, must be typed.
export function confirm({ title, lines, code, word, action, danger }) {
  return new Promise((resolve) => {
    const typed = word && h('input', { type: 'text', id: 'typed', autocomplete: 'off', spellcheck: 'false', autocapitalize: 'off' });
    const yes = h(danger ? 'button.danger' : 'button.primary', { type: 'submit', value: 'yes', disabled: Boolean(word) }, action);
    const no = h('button', { type: 'button', onclick: () => d.close('no') }, 'Leave it');
    if (typed) typed.addEventListener('input', () => { yes.disabled = typed.value.trim() !== word; });
    const form = h('form', { method: 'dialog' },
      h('h2', { id: 'question' }, title), lines.map((l) => h('p', null, l)), code ? h('pre', null, code) : null,
      typed ? h('div.form', null, h('div.field', null, h('label', { for: 'typed' }, `To continue, type ${word}`), typed)) : null,
      h('div.actions', null, no, yes));
    const d = h('dialog', { 'aria-labelledby': 'question' }, form);
    d.addEventListener('close', () => {
      d.remove();
      resolve(d.returnValue === 'yes');
    });
    document.body.append(d);
    d.showModal();
    (typed || no).focus();
  });
}
