// The part of the address behind #: a page, and at most a name.

// '#/unit/a%2Fb' is {page: 'unit', args: ['a/b']}.
export function parse(hash) {
  const parts = hash.replace(/^#?\/?/, '').split('/').filter((p) => p !== '');
  const args = [];
  for (const p of parts.slice(1)) {
    try { args.push(decodeURIComponent(p)); } catch { args.push(p); }
  }
  return { page: parts[0] || 'overview', args };
}

export const link = (page, ...args) => '#/' + [page === 'overview' ? '' : page, ...args.map(encodeURIComponent)].filter((p, i) => i === 0 || p !== '').join('/');
