// Errors of weir as sentences for people. An error of Go is a chain of packages and causes,
// such as "fleet: breaker: the tier is unavailable: dial tcp …".
const because = (words, cause) => {
  const rest = (cause || '').replace(/^(?:the )?breaker is open$/, '');
  return words + (rest ? ` (${rest})` : '');
};

const known = [
  [/^fleet: breaker: the tier is unavailable(?:: (.*))?$/s, (m) => because('The shared store does not respond, so it is not used until it does', m[1])],
  [/^fleet: (?:[a-z ]+: )?the tier is unavailable(?:: (.*))?$/s, (m) => because('The shared store does not respond', m[1])],
  [/^fleet: the engine has not acknowledged the invalidation, (\d+) pending(?:: .*)?$/s, (m) => `The shared store has not acknowledged it: ${m[1]} pending, and sent again until it does`],
  [/^(?:.*: )?context deadline exceeded$/s, () => 'There was no response in time'],
];

const packages = /^(?:weir|weirhttp|gateway|jobs|jobshttp|fleet|console|limit|weirredis): (?=\S)/;

export function sentence(error) {
  const text = String(error || '').trim();
  for (const [form, say] of known) {
    const m = form.exec(text);
    if (m) return finished(say(m));
  }
  const bare = text.replace(packages, '');
  return finished(bare.charAt(0).toUpperCase() + bare.slice(1));
}

const finished = (s) => (s === '' || /[.!?…]$/.test(s) ? s : s + '.');
