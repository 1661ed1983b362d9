// The search and the menu. Without scripts the pages and the menu still work.
'use strict';
(() => {
  const up = document.body.dataset.up;
  const input = document.getElementById('search');
  const results = document.getElementById('results');
  const most = 20;
  let loading = null;

  // The index is loaded with the first use of the search.
  function index() {
    loading ??= new Promise((resolve, reject) => {
      const s = document.createElement('script');
      s.src = up + 'assets/index.js';
      s.onload = () => resolve(window.weirIndex.map((e) => ({ ...e, page: e.p.toLowerCase(), heading: (e.h ?? '').toLowerCase(), text: e.t.toLowerCase() })));
      s.onerror = () => reject(new Error('the search index cannot be loaded'));
      document.head.append(s);
    });
    return loading;
  }

  // find returns the sections that contain every word, the best first.
  function find(all, words) {
    const found = [];
    for (const e of all) {
      let score = 0;
      for (const w of words) {
        const hit = 8 * at(e.page, w) + 6 * at(e.heading, w) + at(e.text, w);
        if (hit === 0) { score = 0; break; }
        score += hit;
      }
      if (score > 0) found.push({ e, score: score - 4 * e.r + (e.h ? 0 : 3) });
    }
    return found.sort((a, b) => b.score - a.score);
  }

  // at is 2 where a word begins with w, 1 where w is inside a word, and 0 otherwise.
  function at(text, w) {
    const i = text.indexOf(w);
    if (i < 0) return 0;
    return i === 0 || /[^\p{L}\p{N}]/u.test(text[i - 1]) || text.search(new RegExp('(^|[^\\p{L}\\p{N}])' + w.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'), 'u')) >= 0 ? 2 : 1;
  }

  // excerpt returns the text around the first word, with all words marked.
  function excerpt(e, words) {
    const first = Math.max(0, Math.min(...words.map((w) => e.text.indexOf(w)).filter((i) => i >= 0), e.text.length) - 60);
    const p = document.createElement('p');
    let rest = (first > 0 ? '…' : '') + e.t.slice(first, first + 220) + (e.t.length > first + 220 ? '…' : '');
    while (rest) {
      const low = rest.toLowerCase();
      const next = words.map((w) => ({ w, i: low.indexOf(w) })).filter((x) => x.i >= 0).sort((a, b) => a.i - b.i)[0];
      if (!next) break;
      const m = document.createElement('mark');
      m.textContent = rest.slice(next.i, next.i + next.w.length);
      p.append(rest.slice(0, next.i), m);
      rest = rest.slice(next.i + next.w.length);
    }
    p.append(rest);
    return p;
  }

  function show(found, words) {
    const list = document.createElement('ol');
    for (const { e } of found.slice(0, most)) {
      const li = document.createElement('li');
      const a = document.createElement('a');
      a.href = up + e.u;
      a.textContent = e.h ?? e.p;
      li.append(a);
      if (e.h) {
        const page = document.createElement('span');
        page.className = 'page';
        page.textContent = ' – ' + e.p;
        li.append(page);
      }
      li.append(excerpt(e, words));
      list.append(li);
    }
    const p = document.createElement('p');
    p.textContent = found.length === 0 ? 'No page contains all of these words.' : found.length > most ? `The first ${most} of ${found.length} sections.` : '';
    results.replaceChildren(list, p);
    results.hidden = false;
  }

  let latest = 0;
  async function search() {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const run = ++latest;
    if (words.length === 0) { results.hidden = true; return; }
    try {
      const all = await index();
      if (run === latest) show(find(all, words), words);
    } catch (err) {
      results.replaceChildren(err.message);
      results.hidden = false;
    }
  }

  input.disabled = false;
  input.addEventListener('input', search);
  input.form.addEventListener('submit', (event) => {
    event.preventDefault();
    results.querySelector('a')?.click();
  });
  results.addEventListener('click', (event) => {
    if (event.target.closest('a')) results.hidden = true;
  });
  document.addEventListener('keydown', (event) => {
    if (event.key === '/' && document.activeElement !== input) { event.preventDefault(); input.focus(); }
    if (event.key === 'Escape') { results.hidden = true; input.blur(); }
  });

  const menu = document.getElementById('menu');
  const nav = document.getElementById('nav');
  menu.addEventListener('click', () => menu.setAttribute('aria-expanded', String(nav.classList.toggle('open'))));
  nav.querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest' });
})();
