package stream_test

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/stream"
)

func TestWholeOfKnownSizeIsWhatWasWritten(t *testing.T) {
	for _, size := range []int{0, 1, 4 * kib, 64 * kib, 64*kib + 1, 300 * kib, 1 << 20} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			money := newBudget(int64(size))
			b := stream.New(stream.Options{Size: int64(size), Limit: 1 << 20, Reserve: money.reserve})
			want := pattern(size)
			for p := want; len(p) > 0; {
				n := min(len(p), 10_000)
				write(t, b, p[:n])
				p = p[n:]
			}
			if p, ok := b.Whole(); p != nil || ok {
				t.Errorf("Whole() before Finish = %d bytes, %v; want nil, false", len(p), ok)
			}
			b.Finish(nil, nil)
			got, ok := b.Whole()
			if !ok || got == nil || !bytes.Equal(got, want) || cap(got) != size {
				t.Errorf("Whole() = %d bytes with room for %d, %v; want all %d", len(got), cap(got), ok, size)
			}
			if u := money.used.Load(); u != int64(size) {
				t.Errorf("%d bytes are reserved; want %d", u, size)
			}
			if n := testing.AllocsPerRun(10, func() { b.Whole() }); n != 0 {
				t.Errorf("Whole() allocates %v times; want 0", n)
			}
			if size > 0 {
				if p, _ := join(t, b).Next(t.Context()); &p[0] != &got[0] {
					t.Error("Whole() is a copy of what readers get")
				}
			}
			b.Release()
			if u := money.used.Load(); u != 0 {
				t.Errorf("%d bytes are reserved after Release; want 0", u)
			}
		})
	}
}

func TestWholeOfUnknownSizeIsPutTogetherOnce(t *testing.T) {
	for _, size := range []int{0, 1, 4 * kib, 64*kib + 1, 1 << 20} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			money := newBudget(2 << 20)
			b := stream.New(stream.Options{Size: -1, Limit: 1 << 20, Reserve: money.reserve})
			early := join(t, b)
			want := pattern(size)
			for p := want; len(p) > 0; {
				n := min(len(p), 1000)
				write(t, b, p[:n])
				p = p[n:]
			}
			if u := money.used.Load(); u < int64(size) {
				t.Errorf("%d bytes are reserved; want at least %d", u, size)
			}
			if size > 1 {
				early.Next(t.Context()) // is in the middle when chunks are replaced
			}
			b.Finish(nil, nil)
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					if got, ok := b.Whole(); !ok || got == nil || !bytes.Equal(got, want) || cap(got) != size {
						t.Errorf("Whole() = %d bytes with room for %d, %v; want all %d", len(got), cap(got), ok, size)
					}
				})
			}
			wg.Wait()
			if u := money.used.Load(); u != int64(size) {
				t.Errorf("%d bytes are reserved; want %d", u, size)
			}
			if n := testing.AllocsPerRun(10, func() { b.Whole() }); n != 0 {
				t.Errorf("Whole() allocates %v times; want 0", n)
			}
			reads(t, join(t, b), want)
			if _, err := readAll(t.Context(), early); err != io.EOF {
				t.Errorf("the early reader ended with %v; want EOF", err)
			}
			b.Release()
			if got, ok := b.Whole(); !ok || !bytes.Equal(got, want) {
				t.Errorf("Whole() after Release = %d bytes, %v; want all", len(got), ok)
			}
			if u := money.used.Load(); u != 0 {
				t.Errorf("%d bytes are reserved after Release; want 0", u)
			}
		})
	}
}

func TestPromisedSizeTakesNoMemory(t *testing.T) {
	money := newBudget(1 << 40)
	b := stream.New(stream.Options{Size: 1 << 40, Limit: 1 << 40, Reserve: money.reserve})
	for _, test := range []struct{ write, most int }{
		{1, 64 * kib}, {64*kib - 1, 64 * kib}, {1, 256 * kib}, {192 * kib, 1024 * kib},
	} {
		write(t, b, make([]byte, test.write))
		if u := money.used.Load(); u > int64(test.most) {
			t.Errorf("%d bytes are reserved; want at most %d", u, test.most)
		}
	}
	b.Finish(nil, nil)
	b.Release()
	if u := money.used.Load(); u != 0 {
		t.Errorf("%d bytes are reserved after Release; want 0", u)
	}
}

func TestH4_RefusedBudgetIsTheLimit(t *testing.T) {
	for _, size := range []int64{-1, 1 << 20} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			money := newBudget(100 * kib)
			b := stream.New(stream.Options{Size: size, Limit: 1 << 20, Window: 512 * kib, Reserve: money.reserve})
			r := join(t, b)
			want := pattern(1 << 20)
			var got []byte
			for n := 0; n < len(want); n += 8 * kib {
				write(t, b, want[n:n+8*kib])
				// The sole reader keeps its place, however far behind it is.
				if n >= 32*kib {
					p, err := r.Next(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					got = append(got, p...)
				}
			}
			b.Finish(nil, nil)
			rest, _ := readAll(t.Context(), r)
			if got = append(got, rest...); !bytes.Equal(got, want) {
				t.Errorf("reader got %d bytes (equal: %v); want all", len(got), bytes.Equal(got, want))
			}
			if b.Kept() {
				t.Error("Kept() = true; want false")
			}
			if u := money.used.Load(); u != 0 {
				t.Errorf("%d bytes are reserved once the counted chunks have left the window; want 0", u)
			}
			b.Release()
			if u := money.used.Load(); u != 0 {
				t.Errorf("%d bytes are reserved after Release; want 0", u)
			}
		})
	}
}

func TestH4_BeginAppendsAllOrNothing(t *testing.T) {
	for _, size := range []int64{-1, 3000, 1 << 20} {
		for _, granted := range []bool{true, false} {
			left := newBudget(1 << 20)
			if !granted {
				left.bound.Store(100)
			}
			b := stream.New(stream.Options{Size: size, Limit: 1 << 20, Reserve: left.reserve})
			want := pattern(3000)
			if b.Begin(want[:2000]) != granted {
				t.Fatalf("size %d: Begin() = %v; want %v", size, !granted, granted)
			}
			r := join(t, b)
			if !granted {
				write(t, b, want[:2000])
			}
			write(t, b, want[2000:])
			if size <= 3000 {
				b.Finish(nil, nil)
				reads(t, r, want)
			} else if got, err := r.Next(t.Context()); len(got) == 0 || err != nil {
				t.Errorf("size %d: Next() = %d bytes, %v", size, len(got), err)
			}
			b.Release()
			if used := left.used.Load(); used != 0 {
				t.Errorf("size %d: %d reserved at the end; want 0", size, used)
			}
		}
	}
	if b := stream.New(stream.Options{Size: 5, Limit: 4}); b.Begin([]byte("a")) {
		t.Error("Begin() = true past the limit")
	}
}

func TestH4_RefusedBudgetNarrowsTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		money := newBudget(0)
		b := stream.New(stream.Options{Size: -1, Limit: 1 << 20, Window: 1 << 20, Reserve: money.reserve})
		r := join(t, b)
		write(t, b, pattern(64*kib))
		start := time.Now()
		time.AfterFunc(time.Second, func() { r.Next(t.Context()) })
		write(t, b, pattern(1))
		if d := time.Since(start); d != time.Second {
			t.Errorf("Write beyond 64 KiB returned after %v; want 1s", d)
		}
	})
}

func TestReleaseWhileWriting(t *testing.T) {
	money := newBudget(1 << 30)
	b := stream.New(stream.Options{Size: -1, Limit: 1 << 20, Window: 64 * kib, Reserve: money.reserve})
	r := join(t, b)
	write(t, b, pattern(10*kib))
	b.Release()
	b.Release()
	if u := money.used.Load(); u != 0 {
		t.Errorf("%d bytes are reserved after Release; want 0", u)
	}
	if b.Kept() || b.Join() != nil {
		t.Error("a released body can be joined")
	}
	// Chunks that leave the window now were returned to the budget already.
	for range 20 {
		write(t, b, pattern(10*kib))
		for r.Ready() {
			if _, err := r.Next(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	b.Finish(nil, nil)
	if got, err := readAll(t.Context(), r); len(got) != 0 || err != io.EOF {
		t.Errorf("reader got %d bytes, %v; want none, EOF", len(got), err)
	}
	if u := money.used.Load(); u != 0 {
		t.Errorf("%d bytes are reserved at the end; want 0", u)
	}
}

func TestReleaseWhileReserving(t *testing.T) {
	money := newBudget(1 << 30)
	var b *stream.Body
	b = stream.New(stream.Options{Size: -1, Limit: 1 << 20, Window: 64 * kib, Reserve: func(n int64) bool {
		ok := money.reserve(n)
		if n > 0 {
			b.Release()
		}
		return ok
	}})
	join(t, b)
	write(t, b, pattern(10))
	b.Finish(nil, nil)
	if u := money.used.Load(); u != 0 {
		t.Errorf("%d bytes are reserved at the end; want 0", u)
	}
}

func TestFinishWhileReserving(t *testing.T) {
	money := newBudget(1 << 30)
	var b *stream.Body
	var first []byte
	b = stream.New(stream.Options{Size: -1, Limit: 1 << 20, Reserve: func(n int64) bool {
		if n > 0 && money.used.Load() > 0 { // for the second chunk
			b.Finish(nil, nil)
			first, _ = b.Whole()
		}
		return money.reserve(n)
	}})
	write(t, b, pattern(4*kib))
	if n, err := b.Write(t.Context(), pattern(1)); n != 0 || err != stream.ErrFinished {
		t.Errorf("Write = %d, %v; want 0, ErrFinished", n, err)
	}
	if again, ok := b.Whole(); !ok || len(again) != 4*kib || &again[0] != &first[0] {
		t.Errorf("Whole() = %d bytes, %v; want the same as before", len(again), ok)
	}
	b.Release()
	if u := money.used.Load(); u != 0 {
		t.Errorf("%d bytes are reserved at the end; want 0", u)
	}
}
