// H21: hidden characters in untrusted text are visible in the browser too.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { visible } from '../assets/js/visible.js';

test('hidden characters are escaped', () => {
  for (const [given, want] of [
    ['/plain?x=é 世界 👋', '/plain?x=é 世界 👋'],
    ['a\u0000b\u001bc\u007fd\r', 'a\\x00b\\x1bc\\x7fd\\x0d'],
    ['a\u0085b\u009bc', 'a\\u0085b\\u009bc'],
    ['a\u202ab\u202ec\u2066d\u2069e', 'a\\u202ab\\u202ec\\u2066d\\u2069e'],
    ['a\u200eb\u200fc\u061cd', 'a\\u200eb\\u200fc\\u061cd'],
    ['a\u200bb\u200dc\u2060d\ufeffe\u00adf', 'a\\u200bb\\u200dc\\u2060d\\ufeffe\\u00adf'],
    ['a\u2028b\u2029c', 'a\\u2028b\\u2029c'],
    ['a\u{e0041}b\u{e007f}c', 'a\\U000e0041b\\U000e007fc'],
    ['a\ufe0fb\u{e0101}c\u3164d\u2800e', 'a\\ufe0fb\\U000e0101c\\u3164d\\u2800e'],
    ['a\ud800b', 'a\\ud800b'],
    ['two\nlines\tand a tab, 12\u202fms\u00a0', 'two\nlines\tand a tab, 12\u202fms\u00a0'],
    [12, '12'],
  ]) assert.equal(visible(given), want);
});
