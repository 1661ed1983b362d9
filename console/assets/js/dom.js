// Builds elements. Text is only ever set as text, so data cannot become markup. All of
// it passes through visible, so it has no hidden characters.
import { visible } from './visible.js';

// h('a.button', {href, onclick, text…}, …children) creates an element. Attributes
// that are null, undefined or false are left out; on… are listeners.
export function h(tag, attrs, ...children) {
  const [name, ...classes] = tag.split('.');
  const e = document.createElement(name || 'div');
  if (classes.length) e.className = classes.join(' ');
  for (const [k, v] of Object.entries(attrs || {})) {
    if (v === null || v === undefined || v === false) continue;
    if (k.startsWith('on')) e.addEventListener(k.slice(2), v);
    else e.setAttribute(k, shown(k, v));
  }
  add(e, children);
  return e;
}

// Attributes that people read. Others, such as href and value, are for the browser.
const read = new Set(['title', 'aria-label', 'placeholder', 'alt']);

function shown(name, value) {
  if (value === true) return '';
  return read.has(name) ? visible(value) : String(value);
}

function add(e, children) {
  for (const c of children) {
    if (Array.isArray(c)) add(e, c);
    else if (c !== null && c !== undefined && c !== false) e.append(typeof c === 'object' ? c : visible(c));
  }
}

const svgSpace = 'http://www.w3.org/2000/svg';

export function svg(tag, attrs, ...children) {
  const e = document.createElementNS(svgSpace, tag);
  for (const [k, v] of Object.entries(attrs || {})) e.setAttribute(k, shown(k, v));
  add(e, children);
  return e;
}

// Sets the text of e, unless it has that text already: the page is redrawn every second,
// and a selection should last longer.
export function text(e, value) {
  const s = visible(value);
  if (e.textContent !== s) e.textContent = s;
}

export function attr(e, name, value) {
  if (value === null || value === undefined || value === false) {
    if (e.hasAttribute(name)) e.removeAttribute(name);
    return;
  }
  const s = shown(name, value);
  if (e.getAttribute(name) !== s) e.setAttribute(name, s);
}

// Replaces the children of e if their key has changed.
export function swap(e, signature, make) {
  if (e.weirSignature === signature) return;
  e.weirSignature = signature;
  e.replaceChildren();
  add(e, [make()]);
}

// Gives parent one child for each item, in order. Existing children are reused by key.
export function each(parent, items, keyOf, make, update) {
  const known = parent.weirKeyed || (parent.weirKeyed = new Map());
  const wanted = new Set();
  let at = parent.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    if (wanted.has(key)) continue;
    wanted.add(key);
    let e = known.get(key);
    if (!e) known.set(key, (e = make(item)));
    if (e === at) at = at.nextElementSibling;
    else parent.insertBefore(e, at);
    update(e, item);
  }
  for (const [key, e] of known) {
    if (!wanted.has(key)) {
      e.remove();
      known.delete(key);
    }
  }
}

export function panel(title, hint, ...children) {
  const id = 'p' + (panel.n = (panel.n || 0) + 1);
  const head = h('header', null, h('h2', { id }, title), hint ? h('span.hint', null, hint) : null);
  const e = h('section.panel', { 'aria-labelledby': id }, head, ...children);
  e.head = head;
  return e;
}

export const empty = (strong, words) => h('p.empty', null, h('strong', null, strong), words);
