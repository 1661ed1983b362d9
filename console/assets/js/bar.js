// The bar on top: navigation, the state of the connection, and the time range.
import { h, svg, text, attr, swap } from './dom.js';
import { link } from './router.js';
import { theme, toggleTheme, onTheme } from './theme.js';

export const pages = [
  { page: 'overview', name: 'Overview', key: 'o' },
  { page: 'hot', name: 'Hot keys', key: 'h' },
  { page: 'fleet', name: 'Fleet', key: 'f', needs: (f) => f.fleet },
  { page: 'jobs', name: 'Jobs', key: 'j', needs: (f) => f.jobs },
  { page: 'idempotency', name: 'Idempotency', key: 'i', needs: (f) => f.idempotency },
  { page: 'explain', name: 'Explain', key: 'e', needs: (f) => f.explain },
  { page: 'purge', name: 'Purge', key: 'p', needs: (f) => f.purge },
];

const ranges = [[60, '1 min'], [300, '5 min'], [600, '10 min']];
const sun = 'M8 4.2a3.8 3.8 0 1 0 0 7.6 3.8 3.8 0 0 0 0-7.6M8 .8v1.6M8 13.6v1.6M.8 8h1.6M13.6 8h1.6M2.9 2.9l1.1 1.1M12 12l1.1 1.1M2.9 13.1 4 12M12 4l1.1-1.1';
const moon = 'M13.5 9.8A6 6 0 0 1 6.2 2.5a6 6 0 1 0 7.3 7.3z';
const icon = (d) => svg('svg', { viewBox: '0 0 16 16', fill: 'none', stroke: 'currentColor', 'stroke-width': '1.5', 'stroke-linecap': 'round', 'stroke-linejoin': 'round', 'aria-hidden': 'true' }, svg('path', { d }));

export class Bar {
  // on has range(seconds), pause(), help() and logout().
  constructor(el, on) {
    this.on = on;
    this.name = h('span', null, 'weir');
    this.nav = h('ul');
    this.state = h('span.link', { 'data-state': 'wait' }, 'Connecting');
    this.ranges = ranges.map(([s, words]) => h('button', { type: 'button', 'aria-pressed': 'false', onclick: () => on.range(s) }, words));
    this.pause = h('button', { type: 'button', 'aria-pressed': 'false', onclick: () => on.pause() }, 'Pause');
    this.theme = h('button.quiet.icon', { type: 'button', onclick: toggleTheme });
    this.logout = h('button.quiet', { type: 'button', hidden: true, onclick: () => on.logout() }, 'Log out');
    onTheme(() => this.drawTheme());
    this.drawTheme();
    el.replaceChildren(
      h('a.brand', { href: link('overview') }, h('img', { src: 'assets/icon.svg', alt: '', width: 24, height: 24 }), this.name),
      h('nav.nav', { 'aria-label': 'Pages' }, this.nav),
      h('div.tools', null, this.state,
        h('div.segments', { role: 'group', 'aria-label': 'Time range of the charts' }, this.ranges),
        this.pause),
      h('div.extras', null, this.theme,
        h('button.quiet.icon', { type: 'button', 'aria-label': 'Keyboard shortcuts', title: 'Keyboard shortcuts (?)', onclick: () => on.help() }, '?'), this.logout));
  }

  drawTheme() {
    const to = theme() === 'dark' ? 'light' : 'dark';
    this.theme.replaceChildren(icon(to === 'dark' ? moon : sun));
    attr(this.theme, 'aria-label', `Use the ${to} theme`);
    attr(this.theme, 'title', `Use the ${to} theme`);
  }

  // hello has the features; at is the current page.
  draw(hello, at) {
    text(this.name, hello.title || 'weir');
    const there = pages.filter((p) => !p.needs || p.needs(hello.features));
    const current = at === 'unit' ? 'overview' : at;
    swap(this.nav, there.map((p) => p.page).join() + current, () => there.map((p) =>
      h('li', null, h('a', { href: link(p.page), 'aria-current': p.page === current ? 'page' : null, title: `g then ${p.key}` }, p.name))));
    attr(this.logout, 'hidden', !hello.features.login);
  }

  drawView(view) {
    ranges.forEach(([s], i) => attr(this.ranges[i], 'aria-pressed', String(view.range === s)));
    attr(this.pause, 'aria-pressed', String(view.paused));
    text(this.pause, view.paused ? 'Resume' : 'Pause');
  }

  drawState(state, words) {
    attr(this.state, 'data-state', state);
    text(this.state, words);
  }
}
