// Parses a pasted request: a URL, or a curl command line as browsers copy it. It
// understands the shell's quotes, and runs nothing.

// parse returns {method, url, headers: [[name, value]], body, unknown: [options]},
// or null if the text is neither.
export function parse(text) {
  const trimmed = text.trim();
  if (/^https?:\/\/\S+$/.test(trimmed)) return { method: 'GET', url: trimmed, headers: [], body: false, unknown: [] };
  const words = split(trimmed);
  while (words.length && /^(\$|%|>|sudo|time|env|[A-Za-z_][A-Za-z0-9_]*=.*)$/.test(words[0])) words.shift();
  if (!words.length || !/(^|[\\/])curl(\.exe)?$/.test(words[0])) return null;
  return read(words.slice(1));
}

// Options that take a value and change the request.
const takes = {
  '-X': (r, v) => { r.method = v; }, '--request': '-X',
  '-H': (r, v) => header(r, v), '--header': '-H',
  '-A': (r, v) => r.headers.push(['User-Agent', v]), '--user-agent': '-A',
  '-e': (r, v) => r.headers.push(['Referer', v]), '--referer': '-e',
  '-b': (r, v) => { if (v.includes('=')) r.headers.push(['Cookie', v]); }, '--cookie': '-b',
  '-u': (r, v) => r.headers.push(['Authorization', 'Basic ' + base64(v)]), '--user': '-u',
  '--oauth2-bearer': (r, v) => r.headers.push(['Authorization', 'Bearer ' + v]),
  '-r': (r, v) => r.headers.push(['Range', 'bytes=' + v]), '--range': '-r',
  '-d': (r, v) => data(r, v), '--data': '-d', '--data-raw': '-d', '--data-binary': '-d', '--data-ascii': '-d', '--data-urlencode': '-d',
  '--json': (r, v) => { data(r, v); r.headers.push(['Content-Type', 'application/json'], ['Accept', 'application/json']); },
  '-F': (r) => { r.form = true; }, '--form': '-F',
  '-T': (r) => { r.upload = true; }, '--upload-file': '-T',
  '--url': (r, v) => { r.url = r.url || v; },
};

// Options whose value does not matter here.
const skips = new Set(('-o --output -m --max-time --connect-timeout -x --proxy --cacert --cert -E --key --resolve --retry --retry-delay --limit-rate '
  + '-w --write-out -c --cookie-jar -D --dump-header --interface --max-redirs -K --config --ciphers --tls-max --dns-servers --connect-to --trace --trace-ascii --stderr -Y -y -z --time-cond --max-filesize --unix-socket').split(' '));

const flags = {
  '-I': (r) => { r.head = true; }, '--head': '-I',
  '-G': (r) => { r.get = true; }, '--get': '-G',
  '--compressed': (r) => { if (!has(r, 'accept-encoding')) r.headers.push(['Accept-Encoding', 'deflate, gzip, br, zstd']); },
};

const quiet = new Set(('-s --silent -S --show-error -k --insecure -L --location -i --include -v --verbose -f --fail -g --globoff -N --no-buffer -O --remote-name -J '
  + '--http1.0 --http1.1 --http2 --http2-prior-knowledge --http3 -4 --ipv4 -6 --ipv6 -# --progress-bar --path-as-is --fail-with-body --no-keepalive --tlsv1.2 --tlsv1.3').split(' '));

function read(words) {
  const r = { method: '', url: '', headers: [], data: [], unknown: [] };
  for (let i = 0; i < words.length; i++) {
    let word = words[i];
    let value = null;
    if (word === '--') continue;
    if (!word.startsWith('-') || word === '-') {
      r.url = r.url || word;
      continue;
    }
    const equals = word.startsWith('--') ? word.indexOf('=') : -1;
    if (equals > 0) [word, value] = [word.slice(0, equals), word.slice(equals + 1)];
    else if (!word.startsWith('--') && word.length > 2) {
      // -sXPOST: flags, until one takes the rest as its value
      const short = word.slice(0, 2);
      const rest = word.slice(2);
      word = short;
      if (of(takes, short) || skips.has(short)) value = rest;
      else words.splice(i + 1, 0, '-' + rest);
    }
    if (of(flags, word)) of(flags, word)(r);
    else if (quiet.has(word)) continue;
    else if (of(takes, word) || skips.has(word)) {
      if (value === null) value = words[++i] ?? '';
      if (of(takes, word)) of(takes, word)(r, value);
    } else r.unknown.push(word);
  }
  return finish(r);
}

const of = (table, name) => (Object.hasOwn(table, name) ? (typeof table[name] === 'string' ? table[table[name]] : table[name]) : null);

function finish(r) {
  let body = r.data.length > 0 || Boolean(r.form || r.upload);
  let { url } = r;
  if (url && !/^[a-z][a-z0-9+.-]*:\/\//i.test(url)) url = 'http://' + url; // as curl does
  if (r.get && r.data.length) {
    url += (url.includes('?') ? '&' : '?') + r.data.join('&');
    body = false;
  } else if (r.data.length && !has(r, 'content-type')) {
    r.headers.push(['Content-Type', 'application/x-www-form-urlencoded']);
  }
  const method = r.method || (r.head ? 'HEAD' : r.upload ? 'PUT' : body ? 'POST' : 'GET');
  return { method, url, headers: r.headers, body, unknown: r.unknown };
}

const has = (r, name) => r.headers.some(([n]) => n.toLowerCase() === name);
const data = (r, v) => r.data.push(v);

function header(r, line) {
  const h = headerOf(line);
  if (h) r.headers.push(h);
}

// Parses 'Name: value' to [name, value]; null if it is invalid. 'Name;' is an empty value.
export function headerOf(line) {
  const m = /^\s*(:?[!#$%&'*+.^_`|~0-9A-Za-z-]+)\s*(?::\s*(.*?)|;)\s*$/s.exec(line);
  if (!m || m[1].startsWith(':')) return null; // pseudo-headers of HTTP/2, as browsers copy them
  return [m[1], m[2] || ''];
}

function base64(text) {
  return btoa(String.fromCharCode(...new TextEncoder().encode(text)));
}

const escapes = { n: '\n', t: '\t', r: '\r', a: '\x07', b: '\b', f: '\f', v: '\v', e: '\x1b', '0': '\0' };

// Splits as a shell does: quotes, backslashes, $'…', and continued lines.
export function split(text) {
  const words = [];
  let word = null;
  for (let i = 0; i < text.length; i++) {
    const c = text[i];
    if (/\s/.test(c)) {
      if (word !== null) words.push(word);
      word = null;
    } else if (c === '\\' || (c === '^' && /[\r\n]/.test(text[i + 1] || ''))) {
      if (text[i + 1] === '\r' && text[i + 2] === '\n') i++;
      const next = text[++i];
      if (next !== '\n' && next !== '\r' && next !== undefined) word = (word || '') + next;
    } else if (c === "'" || c === '"' || (c === '$' && text[i + 1] === "'")) {
      const [part, end] = quoted(text, i, c);
      word = (word || '') + part;
      i = end;
    } else word = (word || '') + c;
  }
  if (word !== null) words.push(word);
  return words;
}

// The text of the quotes that begin at i, and where they end. Unclosed quotes extend to
// the end.
function quoted(text, i, c) {
  let out = '';
  if (c === '$') i++;
  const close = c === '"' ? '"' : "'";
  for (i++; i < text.length && text[i] !== close; i++) {
    if (text[i] !== '\\' || c === "'") {
      out += text[i];
    } else if (c === '"') {
      if ('"\\$`\n'.includes(text[i + 1])) out += text[++i] === '\n' ? '' : text[i];
      else out += '\\';
    } else {
      const [part, end] = escaped(text, i + 1);
      out += part;
      i = end;
    }
  }
  return [out, i];
}

// One escape of $'…', whose letter is at i.
function escaped(text, i) {
  const hex = /^(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,6}))/.exec(text.slice(i, i + 8));
  if (hex) {
    const code = parseInt(hex[1] || hex[2] || hex[3], 16);
    return [code <= 0x10ffff ? String.fromCodePoint(code) : '', i + hex[0].length - 1];
  }
  const c = text[i];
  if (c === undefined) return ['', i];
  return [Object.hasOwn(escapes, c) ? escapes[c] : c, i];
}
