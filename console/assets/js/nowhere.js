// The page for an address that matches no page.
import { h, empty } from './dom.js';
import { link } from './router.js';

export class Nowhere {
  constructor(page) {
    this.title = 'No such page';
    this.el = h('div', null, h('div.page-head', null, h('h1', null, 'No such page')),
      empty(`There is no page “${page}” in this console.`, 'The bar above lists the pages.'), h('a', { href: link('overview') }, 'To the overview'));
  }

  draw() {}

  destroy() {}
}
