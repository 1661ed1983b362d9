import test from 'node:test';
import assert from 'node:assert/strict';
import * as f from '../assets/js/format.js';

// Replaces narrow no-break spaces by plain ones.
const plain = (s) => s.replaceAll('\u202f', ' ');

const table = (fn, rows) => {
  for (const [x, want] of rows) assert.equal(plain(fn(x)), want, `${fn.name}(${x})`);
};

test('numbers keep three digits that count', () => {
  table(f.si, [[0, '0'], [0.25, '0.25'], [9.999, '10'], [12.34, '12.3'], [99.96, '100'], [999.4, '999'], [999.6, '1k'],
    [1234, '1.23k'], [999600, '1M'], [45600000, '45.6M'], [-1500, '-1.5k'], [NaN, '–'], [null, '–'], [undefined, '–'], [Infinity, '–']]);
});

test('a rate that is not zero never reads as zero', () => {
  table(f.rate, [[0, '0'], [0.001, '< 0.01'], [0.02, '0.02'], [12, '12']]);
});

test('a share is 100 % or 0 % only if it is', () => {
  table(f.percent, [[1, '100 %'], [0, '0 %'], [0.99999, '99.99 %'], [0.9995, '99.95 %'], [0.995, '99.5 %'], [0.9999999, '99.99 %'],
    [0.97, '97.0 %'], [0.5, '50 %'], [0.054, '5.4 %'], [0.0001, '< 0.1 %'], [NaN, '–']]);
});

test('durations have the unit that suits them', () => {
  table(f.duration, [[0, '0 s'], [2e-9, '2 ns'], [870e-6, '870 µs'], [0.0123, '12.3 ms'], [0.9996, '1 s'], [1.24, '1.24 s'], [99.96, '100 s'], [130, '2 min'], [NaN, '–']]);
  table(f.nanos, [[1500000, '1.5 ms'], [undefined, '–']]);
});

test('ages have two units at most', () => {
  table(f.age, [[0, '0 s'], [-3, '0 s'], [119, '119 s'], [180, '3 min'], [7800, '2 h 10 min'], [7200, '2 h'], [273600, '3 d 4 h']]);
});

test('counts and bytes', () => {
  table(f.count, [[0, '0'], [999, '999'], [1000, '1,000'], [12345678, '12,345,678'], [NaN, '–']]);
  table(f.bytes, [[0, '0 B'], [1023, '1023 B'], [1536, '1.5 KiB'], [256 * 1024 * 1024, '256 MiB']]);
});

test('the marks of an axis share a unit', () => {
  assert.deepEqual(f.axisDurations([0, 0.05, 0.1]).map(plain), ['0', '50 ms', '100 ms']);
  assert.deepEqual(f.axisDurations([0, 0.5, 1]).map(plain), ['0', '0.5 s', '1 s']);
  assert.deepEqual(f.axisDurations([0, 0.0002]).map(plain), ['0', '200 µs']);
});

test('the zero time of Go is no time', () => {
  assert.equal(f.instant('0001-01-01T00:00:00Z'), '');
  assert.equal(f.instant(undefined), '');
  assert.match(f.instant('2026-01-02T03:04:05Z'), /^2026-01-0\d \d\d:04:05$/);
});

test('words', () => {
  assert.equal(f.words([]), '');
  assert.equal(f.words(['a']), 'a');
  assert.equal(f.words(['a', 'b', 'c'], 'or'), 'a, b or c');
  assert.equal(f.many(1, 'job'), '1 job');
  assert.equal(f.many(1200, 'entry', 'entries'), '1,200 entries');
});

test('money has cents, and is not zero unless it is', () => {
  table((x) => f.money(x, 'EUR'), [[0, '0.00 EUR'], [0.001, '< 0.01 EUR'], [1.005, '1.00 EUR'], [1234567.891, '1,234,567.89 EUR'], [NaN, '–']]);
});
