// Keys: g and a letter goes to a page, / to the filter, ? lists all keys.
import { h } from './dom.js';
import { pages } from './bar.js';
import { link } from './router.js';

const typing = (e) => e.closest && e.closest('input, textarea, select, [contenteditable]');

export function shortcuts({ pause }) {
  let g = 0; // when it was pressed
  document.addEventListener('keydown', (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || e.isComposing || document.querySelector('dialog[open]')) return;
    if (typing(e.target)) {
      if (e.key === 'Escape') e.target.blur();
      return;
    }
    const page = pages.find((p) => p.key === e.key);
    if (g && Date.now() - g < 1500 && page) location.hash = link(page.page);
    else if (e.key === '?') help();
    else if (e.key === '.') pause();
    else if (e.key === '/') {
      const field = document.querySelector('[data-filter]');
      if (!field) return;
      field.focus();
      field.select();
    } else {
      g = e.key === 'g' ? Date.now() : 0;
      return;
    }
    g = 0;
    e.preventDefault();
  });
}

export function help() {
  const row = (keys, words) => [h('dt', null, keys.map((k, i) => [i ? ' ' : '', h('kbd', null, k)])), h('dd', null, words)];
  const close = h('button.primary', { type: 'button', onclick: () => d.close() }, 'Close');
  const d = h('dialog', { 'aria-labelledby': 'keys-title' }, h('h2', { id: 'keys-title' }, 'Keyboard'),
    h('dl.keys', null, pages.map((p) => row(['g', p.key], p.name)), row(['/'], 'Filter'), row(['.'], 'Pause or resume'),
      row(['?'], 'Show this list'), row(['Esc'], 'Leave a field or a dialog')),
    h('div.actions', null, close));
  d.addEventListener('close', () => d.remove());
  document.body.append(d);
  d.showModal();
}
