// The part of the address behind #: a page, names, and filters.

// '#/unit/a%2Fb?state=dead' is {page: 'unit', args: ['a/b'], query: {state: 'dead'}}.
export function parse(hash) {
  const [path, filters = ''] = hash.replace(/^#?\/?/, '').split('?');
  const parts = path.split('/').filter((p) => p !== '');
  const args = [];
  for (const p of parts.slice(1)) {
    try { args.push(decodeURIComponent(p)); } catch { args.push(p); }
  }
  return { page: parts[0] || 'overview', args, query: Object.fromEntries(new URLSearchParams(filters)) };
}

export const link = (page, ...args) => '#/' + [page === 'overview' ? '' : page, ...args.map(encodeURIComponent)].filter((p, i) => i === 0 || p !== '').join('/');
