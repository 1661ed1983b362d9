package stream_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"

	"github.com/weir-go/weir/internal/stream"
)

// A budget implements Reserve. Its bound can be changed at any time.
type budget struct {
	used, most, bound atomic.Int64
}

func newBudget(bound int64) *budget {
	b := &budget{}
	b.bound.Store(bound)
	return b
}

func (b *budget) reserve(n int64) bool {
	used := b.used.Add(n)
	if n > 0 && used > b.bound.Load() {
		b.used.Add(-n)
		return false
	}
	for {
		m := b.most.Load()
		if used <= m || b.most.CompareAndSwap(m, used) {
			return true
		}
	}
}

// pattern returns n bytes that make their offset recognizable.
func pattern(n int) []byte {
	p := make([]byte, n)
	x := uint32(1)
	for i := range p {
		x = x*1664525 + 1013904223
		p[i] = byte(x >> 24)
	}
	return p
}

// write appends p, and fails the test on an error.
func write(t *testing.T, b *stream.Body, p []byte) {
	t.Helper()
	if n, err := b.Write(t.Context(), p); n != len(p) || err != nil {
		t.Fatalf("Write(%d bytes) = %d, %v; want %d, nil", len(p), n, err, len(p))
	}
}

// join returns a new reader, and fails the test if there is none.
func join(t *testing.T, b *stream.Body) *stream.Reader {
	t.Helper()
	r := b.Join()
	if r == nil {
		t.Fatal("Join() = nil; want a reader")
	}
	t.Cleanup(r.Close)
	return r
}

// readAll reads to the end, and returns the bytes and the final error.
func readAll(ctx context.Context, r *stream.Reader) ([]byte, error) {
	var all []byte
	for {
		p, err := r.Next(ctx)
		if err != nil {
			return all, err
		}
		if len(p) == 0 {
			return all, errors.New("Next returned no bytes and no error")
		}
		all = append(all, p...)
	}
}

// reads checks that r returns exactly want and then io.EOF.
func reads(t *testing.T, r *stream.Reader, want []byte) {
	t.Helper()
	got, err := readAll(t.Context(), r)
	if err != io.EOF || !bytes.Equal(got, want) {
		t.Errorf("reader got %d bytes (equal: %v), %v; want %d, EOF", len(got), bytes.Equal(got, want), err, len(want))
	}
}
