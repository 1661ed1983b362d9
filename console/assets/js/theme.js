// Light and dark: the system's preference, until the user chooses.
import { read, write, forget } from './memory.js';

const system = matchMedia('(prefers-color-scheme: dark)');
const listeners = new Set();

const preferred = () => (system.matches ? 'dark' : 'light');

export const theme = () => document.documentElement.dataset.theme;

export function onTheme(f) {
  listeners.add(f);
  return () => listeners.delete(f);
}

function apply(t) {
  document.documentElement.dataset.theme = t;
  for (const f of listeners) f(t);
}

// Choosing the system's preference clears the choice.
export function toggleTheme() {
  const t = theme() === 'dark' ? 'light' : 'dark';
  if (t === preferred()) forget('theme');
  else write('theme', t);
  apply(t);
}

system.addEventListener('change', () => {
  if (!read('theme')) apply(preferred());
});

// The value of a color variable, for canvases.
export const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
