// The charts that the overview and the unit pages share.
import { Chart } from './chart.js';
import { kinds, rest, refusals, columnOf } from './rates.js';
import { rate, duration, axisDurations, si } from './format.js';

export const received = (classes) => new Chart({
  title: 'What clients received', hint: 'responses per second', stacked: true, value: rate,
  nothing: 'No responses in this time.',
  lines: classes.map((c) => ({ ...c, name: c.column })),
});

export const answered = () => new Chart({
  title: 'How requests were answered', hint: 'per second', stacked: true, value: rate,
  nothing: 'No requests in this time.',
  lines: [...kinds, ...rest].map((k) => ({ ...k, of: (s) => columnOf(s, k) })),
});

export const saved = () => new Chart({
  title: 'Requests and calls', hint: 'per second; the area between them was saved', value: rate,
  nothing: 'No requests in this time.',
  lines: [
    { name: 'requests', label: 'Requests', color: '--c-hits', fill: true, width: 1.8 },
    { name: 'calls', label: 'Upstream calls', color: '--c-calls', fill: true, width: 1.8, says: 'including refreshes' },
    { name: 'refreshes', label: 'of these, refreshes', color: '--c-calls', dash: [2, 3], width: 1.2, says: 'in the background' },
  ],
});

export const troubles = () => new Chart({
  title: 'Failures and refusals', hint: 'per second', value: rate,
  nothing: 'Nothing was refused, and nothing failed.',
  lines: [
    ...refusals.map((k) => ({ ...k, of: (s) => columnOf(s, k), fill: k.name === 'refused', dash: k.name === 'refused' ? undefined : [6, 3] })),
    { name: 'failed', label: 'Calls failed', color: '--c-failed', dash: [6, 3], says: 'of the source, including timeouts and panics' },
    { name: 'stale_on_error', label: 'Stale on error', color: '--c-stale', dash: [2, 3], width: 2, says: 'stale responses instead of errors or long waits' },
  ],
});

// of is 'request' if requests are timed, else 'call'.
export function times(of) {
  const lines = [];
  if (of === 'request') {
    lines.push({ name: 'request_p99', label: 'Requests p99', color: '--c-p99', width: 1.8 });
    lines.push({ name: 'request_p50', label: 'p50', color: '--c-p50', dash: [6, 3] });
    lines.push({ name: 'call_p50', label: 'Upstream calls p50', color: '--c-calls', dash: [2, 3], width: 1.8 });
  } else {
    lines.push({ name: 'call_p99', label: 'Upstream calls p99', color: '--c-p99', width: 1.8 });
    lines.push({ name: 'call_p50', label: 'p50', color: '--c-p50', dash: [6, 3] });
    lines.push({ name: 'wait_p99', label: 'Waits p99', says: 'of callers, for their own or another call', color: '--c-fleet', dash: [2, 3], width: 1.8 });
  }
  return new Chart({ title: 'How long it took', hint: of === 'request' ? 'requests, and calls to the source' : 'calls to the source; hits are not timed',
    value: duration, marks: axisDurations, nothing: 'Nothing was timed.', lines });
}

export const limit = () => new Chart({
  title: 'The limit, and what moved it', hint: 'concurrent calls; times on the right', value: si, rightMarks: axisDurations,
  nothing: 'There is no data about this limit yet.',
  lines: [
    { name: 'limit', label: 'Limit', color: '--c-requests', width: 2 },
    { name: 'in_use', label: 'In use', color: '--c-joined', fill: true },
    { name: 'queued', label: 'Queued', color: '--c-refused', dash: [2, 3], width: 1.8 },
    { name: 'latency', label: 'Latency', color: '--c-calls', right: true, value: duration, says: 'of the last window, axis on the right' },
    { name: 'baseline', label: 'Baseline', color: '--c-calls', dash: [6, 3], right: true, value: duration, says: 'with spare capacity, axis on the right' },
  ],
});

export const fixedLimit = () => new Chart({
  title: 'The limit', hint: 'calls', value: si, nothing: 'There is no data about this limit yet.',
  lines: [
    { name: 'limit', label: 'Limit', color: '--c-requests', width: 2 },
    { name: 'in_use', label: 'In use', color: '--c-joined', fill: true },
    { name: 'queued', label: 'Queued', color: '--c-refused', dash: [2, 3], width: 1.8 },
  ],
});
