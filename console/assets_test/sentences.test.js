import test from 'node:test';
import assert from 'node:assert/strict';
import { sentence } from '../assets/js/sentences.js';

test('C12: errors are sentences', () => {
  for (const [error, want] of [
    ['fleet: breaker: the tier is unavailable', 'The shared store does not respond, so it is not used until it does.'],
    ['fleet: breaker: the tier is unavailable: the breaker is open', 'The shared store does not respond, so it is not used until it does.'],
    ['fleet: acquire: the tier is unavailable: dial tcp 127.0.0.1:6379: connect: connection refused', 'The shared store does not respond (dial tcp 127.0.0.1:6379: connect: connection refused).'],
    ['fleet: the engine has not acknowledged the invalidation, 3 pending: fleet: breaker: the tier is unavailable', 'The shared store has not acknowledged it: 3 pending, and sent again until it does.'],
    ['jobs: not found', 'Not found.'],
    ['roster: context deadline exceeded', 'There was no response in time.'],
    ['want one of "url", "tags" and "all"', 'Want one of "url", "tags" and "all".'],
    ['Done already.', 'Done already.'],
    ['', ''],
  ]) assert.equal(sentence(error), want);
});
