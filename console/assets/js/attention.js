// What the pages show of the incidents, which the server finds and sends: console/attention.go.
import { last } from './rates.js';

// The incidents of one unit.
export const attentionOf = (all, u) => all.filter((f) => (f.units || []).includes(u.name));

// The badge of a unit without incidents. r are its rates.
export function calm(u, r) {
  const busy = r.requests > 0 || r.calls > 0 || r.refused > 0 || u.flights > 0 || u.running > 0;
  return busy ? { level: 'good', badge: 'healthy' } : { level: 'plain', badge: 'idle' };
}

// Whether there has been no traffic since the start.
export function quiet(store) {
  return !(store.snapshot.units || []).some((u) => u.requests > 0 || u.calls > 0) && !(last(store.total.requests) > 0);
}
