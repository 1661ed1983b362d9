package fleet

import (
	"context"
	"time"

	"github.com/weir-go/weir/fleet/internal/bucket"
)

var _ Ledger = (*Memory)(nil)

// Spend implements [Ledger].
func (m *Memory) Spend(ctx context.Context, key Key, r Rate, n int) (s Spent, err error) {
	if err := checkSpend(r, n); err != nil {
		return Spent{}, err
	}
	err = m.withBucket(ctx, "spend", key, r, func(b *bucket.Bucket) {
		mark, after, ok := b.Spend(r.Burst, n)
		s = Spent{OK: ok, RetryAfter: after, Left: b.Left(r.Burst), Mark: Mark(mark)}
	})
	return s, err
}

// Correct implements [Ledger].
func (m *Memory) Correct(ctx context.Context, key Key, r Rate, debt int, c Correction) (out Corrected, err error) {
	if err := r.check(); err != nil {
		return Corrected{}, err
	}
	err = m.withBucket(ctx, "correct", key, r, func(b *bucket.Bucket) {
		out.Returned, out.Owed = b.Correct(r.Burst, max(0, debt), bucket.Mark(c.Mark), c.Units, c.Cost, c.Remember())
		out.Left = b.Left(r.Burst)
	})
	return out, err
}

// withBucket calls do with the bucket of key, under the lock.
func (m *Memory) withBucket(ctx context.Context, op string, key Key, r Rate, do func(*bucket.Bucket)) error {
	if err := checkKey(key); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now, err := m.beginLocked(ctx, op)
	if err != nil {
		return err
	}
	b := m.buckets[key]
	if b == nil {
		if len(m.buckets) >= m.maxKeys && !m.sweepBucketsLocked(now) {
			return &UnavailableError{Op: op, Err: errTooManyLimits}
		}
		if m.buckets == nil {
			m.buckets = make(map[Key]*bucket.Bucket)
		}
		m.epochs++
		full := bucket.New(0, now)
		full.Epoch = m.epochs
		b = &full
		m.buckets[key] = b
	}
	b.Pass(now, r.perNano())
	do(b)
	return nil
}

// sweepBucketsLocked drops the buckets that are full, and reports whether there is room for
// another one. m.mu must be held.
func (m *Memory) sweepBucketsLocked(now time.Duration) bool {
	for key, b := range m.buckets {
		if b.FullAt(now) {
			delete(m.buckets, key)
		}
	}
	return len(m.buckets) < m.maxKeys
}
