import test from 'node:test';
import assert from 'node:assert/strict';
import { parse, split, headerOf } from '../assets/js/curl.js';

const request = (method, url, headers = [], body = false, unknown = []) => ({ method, url, headers, body, unknown });

test('a URL is a GET', () => {
  assert.deepEqual(parse(' https://shop.example/p/42?a=b \n'), request('GET', 'https://shop.example/p/42?a=b'));
});

test('what is neither a URL nor curl is nothing', () => {
  for (const text of ['', '   ', 'wget https://shop.example', 'https://a b', 'ftp://shop.example/', 'curly https://x']) {
    assert.equal(parse(text), null, text);
  }
});

test('commands as browsers copy them', () => {
  assert.deepEqual(parse(`curl 'https://shop.example/p/42' \\
  -H 'accept: text/html,*/*;q=0.8' \\
  -H 'cookie: a=b; c=d' \\
  --compressed`), request('GET', 'https://shop.example/p/42',
    [['accept', 'text/html,*/*;q=0.8'], ['cookie', 'a=b; c=d'], ['Accept-Encoding', 'deflate, gzip, br, zstd']]));
  assert.deepEqual(parse(`curl 'https://shop.example/' -H 'accept-encoding: gzip' -H $'x: it\\'s \\u00e9' --data-raw '{"a":1}' -H 'content-type: application/json' --compressed`),
    request('POST', 'https://shop.example/', [['accept-encoding', 'gzip'], ['x', "it's é"], ['content-type', 'application/json']], true));
});

test('commands as people write them', () => {
  const rows = [
    ['curl shop.example', request('GET', 'http://shop.example')],
    ['$ curl -sSL -o /dev/null https://a.example/x', request('GET', 'https://a.example/x')],
    ['curl -sXPUT https://a.example', request('PUT', 'https://a.example')],
    ['curl --request=DELETE --url https://a.example', request('DELETE', 'https://a.example')],
    ['curl -I https://a.example', request('HEAD', 'https://a.example')],
    ['curl -H "X-A: \\"b\\"" https://a.example', request('GET', 'https://a.example', [['X-A', '"b"']])],
    ['curl -Haccept:text/html https://a.example', request('GET', 'https://a.example', [['accept', 'text/html']])],
    ['curl -u me:pässword https://a.example', request('GET', 'https://a.example', [['Authorization', 'Basic bWU6cMOkc3N3b3Jk']])],
    ['curl -b k=v -A agent -e https://r.example -r 0-99 https://a.example',
      request('GET', 'https://a.example', [['Cookie', 'k=v'], ['User-Agent', 'agent'], ['Referer', 'https://r.example'], ['Range', 'bytes=0-99']])],
    ['curl -G -d a=1 -d b=2 https://a.example/?x=y', request('GET', 'https://a.example/?x=y&a=1&b=2')],
    ['curl -d a=1 https://a.example', request('POST', 'https://a.example', [['Content-Type', 'application/x-www-form-urlencoded']], true)],
    ['curl -T file https://a.example', request('PUT', 'https://a.example', [], true)],
    ['curl -m 5 --resolve a:80:127.0.0.1 --frobnicate https://a.example', request('GET', 'https://a.example', [], false, ['--frobnicate'])],
    ['curl -H', request('GET', '')],
    ["curl 'https://a.example", request('GET', 'https://a.example')],
    ['curl --constructor --__proto__=x https://a.example', request('GET', 'https://a.example', [], false, ['--constructor', '--__proto__'])],
  ];
  for (const [text, want] of rows) assert.deepEqual(parse(text), want, text);
});

test('headers', () => {
  assert.deepEqual(headerOf('Accept: a: b '), ['Accept', 'a: b']);
  assert.deepEqual(headerOf('X-Empty;'), ['X-Empty', '']);
  for (const line of ['', 'no colon', ': v', ':authority: a.example', 'a b: c']) assert.equal(headerOf(line), null, line);
});

// A generator of numbers that repeats in each run.
function numbers(seed) {
  return (below) => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return Math.floor((seed / 2 ** 32) * below);
  };
}

test('any words survive quoting', () => {
  const n = numbers(7);
  const letters = ['a', 'ä', ' ', "'", '"', '\\', '$', '\n', '-', '^', '`', '=', '😀'];
  for (let i = 0; i < 3000; i++) {
    const words = Array.from({ length: 1 + n(4) }, () => Array.from({ length: 1 + n(8) }, () => letters[n(letters.length)]).join(''));
    const single = words.map((w) => `'${w.replaceAll("'", "'\\''")}'`).join(' ');
    const double = words.map((w) => `"${w.replace(/[\\"$`]/g, '\\$&')}"`).join('  ');
    assert.deepEqual(split(single), words, single);
    assert.deepEqual(split(double), words, double);
  }
});

test('nothing that is pasted throws', () => {
  const n = numbers(11);
  const parts = ['curl', ' ', '-H', '-X', "'", '"', '$\'', '\\', '\\x4', '\\U110000', '\\u', 'https://a.example', '-d', '--', '-', '=', '\n', '-G', '^', 'a: b', '--json', '-b'];
  for (let i = 0; i < 5000; i++) {
    const text = 'curl ' + Array.from({ length: n(12) }, () => parts[n(parts.length)]).join('');
    const r = parse(text);
    assert.ok(r === null || (typeof r.method === 'string' && typeof r.url === 'string' && r.headers.every((h) => h.length === 2)), text);
  }
});
