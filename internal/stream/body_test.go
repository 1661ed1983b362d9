package stream_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/stream"
)

const kib = 1 << 10

func TestH4_FollowersReadFromTheFirstByteAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const followers = 1000
		b := stream.New(stream.Options{Size: -1, Limit: 1 << 20, Window: 256 * kib})
		want := pattern(10 * kib)
		start := time.Now()
		var wg sync.WaitGroup
		for i := range followers {
			wg.Go(func() {
				// Some readers join before the first byte, others in the middle.
				time.Sleep(time.Duration(i%4) * 500 * time.Millisecond)
				r := b.Join()
				if r == nil {
					t.Error("Join() = nil; want a reader")
					return
				}
				defer r.Close()
				first, err := r.Next(t.Context())
				first = bytes.Clone(first)
				if d, want := time.Since(start), max(time.Second, time.Duration(i%4)*500*time.Millisecond); d != want || err != nil {
					t.Errorf("first byte of follower %d after %v, %v; want %v", i, d, err, want)
				}
				rest, err := readAll(t.Context(), r)
				if d := time.Since(start); d != 3*time.Second || err != io.EOF {
					t.Errorf("end of follower %d after %v, %v; want 3s, EOF", i, d, err)
				}
				if got := append(first, rest...); !bytes.Equal(got, want) {
					t.Errorf("follower %d got %d bytes that differ", i, len(got))
				}
			})
		}
		time.Sleep(time.Second)
		write(t, b, want[:1])
		time.Sleep(time.Second)
		write(t, b, want[1:])
		time.Sleep(time.Second)
		b.Finish(nil, nil)
		wg.Wait()
		reads(t, join(t, b), want) // a reader that joins after the end
	})
}

func TestH4_SoleReaderGetsBackPressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := stream.New(stream.Options{Size: -1, Limit: 8, Window: 4})
		r := join(t, b)
		write(t, b, pattern(8)) // exactly at the limit, not past it
		start := time.Now()
		go func() {
			time.Sleep(time.Second)
			p, _ := r.Next(t.Context())
			if len(p) != 8 {
				t.Errorf("Next returned %d bytes; want the 8 of the first chunk", len(p))
			}
			time.Sleep(time.Second)
			if got, err := readAll(t.Context(), r); len(got) != 6 || err != io.EOF {
				t.Errorf("reader got %d more bytes, %v; want 6, EOF", len(got), err)
			}
		}()
		write(t, b, pattern(4)) // 4 more bytes of window once the reader is at 8
		if d := time.Since(start); d != time.Second {
			t.Errorf("Write past the limit returned after %v; want 1s", d)
		}
		write(t, b, pattern(2))
		if d := time.Since(start); d != 2*time.Second {
			t.Errorf("Write past the window returned after %v; want 2s", d)
		}
		b.Finish(nil, nil)
		synctest.Wait()
		if b.Kept() || b.Join() != nil {
			t.Error("a body past the limit can be joined")
		}
		if _, ok := b.Whole(); ok {
			t.Error("Whole() of a body past the limit = true; want false")
		}
	})
}

func TestH4_LaggardLosesItsPlaceAndHoldsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := stream.New(stream.Options{Size: -1, Limit: 16, Window: 8})
		fast, slow := join(t, b), join(t, b)
		write(t, b, pattern(16))
		if _, err := fast.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		write(t, b, pattern(4)) // the window reaches back to 12, so the first chunk is kept
		if p, err := slow.Next(t.Context()); len(p) != 16 || err != nil {
			t.Errorf("slow.Next = %d bytes, %v; want 16, nil", len(p), err)
		}
		for range 10 {
			for {
				if !fast.Ready() {
					break
				}
				if _, err := fast.Next(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			write(t, b, pattern(4))
		}
		if !slow.Ready() {
			t.Error("Ready() of a lagging reader = false; want true")
		}
		if p, err := slow.Next(t.Context()); !errors.Is(err, stream.ErrLagged) {
			t.Errorf("slow.Next = %d bytes, %v; want ErrLagged", len(p), err)
		}

		// The lagging reader is not closed yet. It must not block the writer.
		fast.Close()
		if n, err := b.Write(t.Context(), pattern(9)); n != 0 || err != stream.ErrNobody {
			t.Errorf("Write with only a lagging reader = %d, %v; want 0, ErrNobody", n, err)
		}
	})
}

func TestH4_WriteEndsWhenTheLastReaderLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := stream.New(stream.Options{Size: -1, Limit: 0, Window: 8})
		one, two := join(t, b), join(t, b)
		start := time.Now()
		time.AfterFunc(time.Second, one.Close)
		time.AfterFunc(2*time.Second, two.Close)
		if n, err := b.Write(t.Context(), pattern(20)); n != 8 || err != stream.ErrNobody {
			t.Errorf("Write = %d, %v; want 8, ErrNobody", n, err)
		}
		if d := time.Since(start); d != 2*time.Second {
			t.Errorf("Write returned after %v; want 2s", d)
		}
	})
}

func TestH4_WhenTheForemostLeavesTheNextOneCounts(t *testing.T) {
	for _, test := range []struct {
		name    string
		reads   int // pieces that the other reader reads first
		want    int
		wantErr error
		after   time.Duration
	}{
		{"which keeps up", 4, 10, nil, 3 * time.Second},
		{"which has fallen out of the window", 3, 8, stream.ErrNobody, time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := stream.New(stream.Options{Size: -1, Limit: 0, Window: 8}) // in chunks of 2 bytes
				ahead, other := join(t, b), join(t, b)
				write(t, b, pattern(8))
				for range 4 {
					ahead.Next(t.Context())
				}
				for range test.reads {
					other.Next(t.Context())
				}
				start := time.Now()
				time.AfterFunc(time.Second, ahead.Close)
				time.AfterFunc(3*time.Second, func() { other.Next(t.Context()) })
				n, err := b.Write(t.Context(), pattern(10))
				if d := time.Since(start); n != test.want || err != test.wantErr || d != test.after {
					t.Errorf("Write = %d, %v after %v; want %d, %v after %v", n, err, d, test.want, test.wantErr, test.after)
				}
			})
		})
	}
}

func TestWriteEndsWithTheCauseOfItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := stream.New(stream.Options{Size: -1, Limit: 0, Window: 8})
		join(t, b)
		cause := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, cause)
		defer cancel()
		start := time.Now()
		if n, err := b.Write(ctx, pattern(9)); n != 8 || err != cause || time.Since(start) != time.Second {
			t.Errorf("Write = %d, %v after %v; want 8, %v after 1s", n, err, time.Since(start), cause)
		}
		// Without a need to wait, a context that has ended does not matter.
		kept := stream.New(stream.Options{Size: -1, Limit: 9})
		if n, err := kept.Write(ctx, pattern(9)); n != 9 || err != nil {
			t.Errorf("Write up to the limit = %d, %v; want 9, nil", n, err)
		}
	})
}

func TestFinishEndsAWaitingWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := stream.New(stream.Options{Size: -1, Limit: 0, Window: 8})
		join(t, b)
		time.AfterFunc(time.Second, func() { b.Finish(nil, errors.New("canceled")) })
		if n, err := b.Write(t.Context(), pattern(9)); n != 8 || err != stream.ErrFinished {
			t.Errorf("Write = %d, %v; want 8, ErrFinished", n, err)
		}
	})
}

func TestNextEndsWithTheCauseOfItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := stream.New(stream.Options{Size: -1, Limit: 9})
		r := join(t, b)
		if r.Ready() {
			t.Error("Ready() before the first byte = true; want false")
		}
		cause := errors.New("gone")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, cause)
		defer cancel()
		start := time.Now()
		if p, err := r.Next(ctx); p != nil || err != cause || time.Since(start) != time.Second {
			t.Errorf("Next = %v, %v after %v; want nil, %v after 1s", p, err, time.Since(start), cause)
		}
		write(t, b, pattern(3))
		if p, err := r.Next(ctx); len(p) != 3 || err != nil {
			t.Errorf("Next with bytes there = %d bytes, %v; want 3, nil", len(p), err)
		}
		r.Close()
		r.Close()
		if _, err := r.Next(ctx); err != stream.ErrClosed {
			t.Errorf("Next after Close = %v; want ErrClosed", err)
		}
	})
}

func TestH4_SizeAboveTheLimitIsNeverKept(t *testing.T) {
	money := newBudget(1 << 30)
	b := stream.New(stream.Options{Size: 1 << 20, Limit: 256 * kib, Window: 64 * kib, Reserve: money.reserve})
	r := join(t, b)
	if !b.Kept() {
		t.Error("Kept() before the first byte = false; want true")
	}
	if b.Join() == nil {
		t.Error("Join() before the first byte = nil; want a reader")
	}
	want := pattern(1 << 20)
	write(t, b, want[:1])
	if b.Kept() || b.Join() != nil {
		t.Error("a body with a size above the limit can be joined after its first byte")
	}
	var got []byte
	for n := 1; n < len(want); n += 16 * kib {
		p, err := r.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, p...)
		write(t, b, want[n:min(n+16*kib, len(want))])
	}
	b.Finish(nil, nil)
	rest, err := readAll(t.Context(), r)
	if got = append(got, rest...); err != io.EOF || !bytes.Equal(got, want) {
		t.Errorf("reader got %d bytes (equal: %v), %v; want all, EOF", len(got), bytes.Equal(got, want), err)
	}
	if m := money.most.Load(); m > (64+16)*kib {
		t.Errorf("%d bytes were reserved; want at most the window and a chunk", m)
	}
	b.Release()
	if u := money.used.Load(); u != 0 {
		t.Errorf("%d bytes are reserved after Release; want 0", u)
	}
}

func TestH5_BrokenIsNeverEOF(t *testing.T) {
	reset := errors.New("connection reset")
	for _, test := range []struct {
		name    string
		size    int64
		limit   int64
		written int
		err     error
		is      error // nil: any
	}{
		{"broken", -1, 100, 5, reset, reset},
		{"broken before the first byte", -1, 100, 0, reset, reset},
		{"broken at its full size", 5, 100, 5, reset, reset},
		{"EOF as the reason", -1, 100, 5, io.EOF, io.ErrUnexpectedEOF},
		{"wrapped EOF as the reason", -1, 100, 5, fmt.Errorf("read: %w", io.EOF), io.ErrUnexpectedEOF},
		{"shorter than it said", 6, 100, 5, nil, io.ErrUnexpectedEOF},
		{"nothing of what it said", 6, 100, 0, nil, io.ErrUnexpectedEOF},
		{"longer than it said", 4, 100, 5, nil, nil},
		{"past the limit", -1, 2, 5, reset, reset},
		{"past the limit, shorter than it said", 200, 100, 5, nil, io.ErrUnexpectedEOF},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := stream.New(stream.Options{Size: test.size, Limit: test.limit, Window: 64})
			r := join(t, b)
			want := pattern(test.written)
			var got []byte
			for i := range want {
				write(t, b, want[i:i+1])
				p, err := r.Next(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, p...)
			}
			b.Finish(nil, test.err)
			b.Finish(nil, nil) // only the first call counts
			rest, err := readAll(t.Context(), r)
			if errors.Is(err, io.EOF) || err == nil || test.is != nil && !errors.Is(err, test.is) {
				t.Errorf("the body ends with %v; want %v", err, test.is)
			}
			if got = append(got, rest...); !bytes.Equal(got, want) {
				t.Errorf("reader got %q; want %q", got, want)
			}
			if p, ok := b.Whole(); p != nil || ok {
				t.Errorf("Whole() = %d bytes, %v; want nil, false", len(p), ok)
			}
		})
	}
}

func TestH5_FailedWriteBreaksTheBody(t *testing.T) {
	b := stream.New(stream.Options{Size: -1, Limit: 4, Window: 4})
	r := join(t, b)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(io.EOF)
	if n, err := b.Write(ctx, pattern(9)); n != 4 || errors.Is(err, io.EOF) {
		t.Errorf("Write = %d, %v; want 4 and an error that is not EOF", n, err)
	}
	b.Finish(nil, nil)
	if _, err := readAll(ctx, r); !errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		t.Errorf("a body with a failed Write ends with %v; want ErrUnexpectedEOF", err)
	}
}

func TestH5_CauseOfAReadersContextIsNotEOF(t *testing.T) {
	b := stream.New(stream.Options{Size: -1, Limit: 4})
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(io.EOF)
	if _, err := join(t, b).Next(ctx); !errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		t.Errorf("Next = %v; want ErrUnexpectedEOF", err)
	}
}

func TestTrailerIsThatOfTheFirstFinish(t *testing.T) {
	b := stream.New(stream.Options{Size: -1, Limit: 4})
	if got := b.Trailer(); got != nil {
		t.Errorf("Trailer() before Finish = %v; want nil", got)
	}
	b.Finish(http.Header{"A": {"1"}}, nil)
	b.Finish(http.Header{"A": {"2"}}, nil)
	if got := b.Trailer().Get("A"); got != "1" {
		t.Errorf("Trailer().Get(A) = %q; want 1", got)
	}
	if n, err := b.Write(t.Context(), []byte("x")); n != 0 || err != stream.ErrFinished {
		t.Errorf("Write after Finish = %d, %v; want 0, ErrFinished", n, err)
	}
}

func TestH4_PatienceWithLaggards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := stream.New(stream.Options{Size: -1, Limit: 0, Window: 64, Patience: time.Second})
		fast, slow, stuck := join(t, b), join(t, b), join(t, b)
		go drain(t, fast, 0)
		ended := make(chan error)
		// It is asleep when the patience ends, at 1s. If it waited in Next
		// instead, it could get ahead of the fast reader, and the writer would
		// wait for it.
		go func() { ended <- drain(t, slow, 600*time.Millisecond) }()
		start := time.Now()
		for range 100 {
			write(t, b, pattern(16))
		}
		b.Finish(nil, nil)
		if took := time.Since(start); took != time.Second {
			t.Errorf("writing took %v; want %v, for the stuck reader", took, time.Second)
		}
		if _, err := stuck.Next(t.Context()); !errors.Is(err, stream.ErrLagged) {
			t.Errorf("the stuck reader got %v; want ErrLagged", err)
		}
		if err := <-ended; !errors.Is(err, stream.ErrLagged) {
			t.Errorf("the slow reader got %v; want ErrLagged, because no patience was left", err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		b := stream.New(stream.Options{Size: -1, Limit: 0, Window: 64, Patience: time.Second})
		fast, slow := join(t, b), join(t, b)
		go drain(t, fast, 0)
		ended := make(chan error)
		go func() { ended <- drain(t, slow, 10*time.Millisecond) }()
		for range 100 {
			write(t, b, pattern(16))
		}
		b.Finish(nil, nil)
		if err := <-ended; err != nil {
			t.Errorf("a reader that is a little slower got %v; want the whole body", err)
		}
	})
}

// drain reads r to its end, with a pause before each piece.
func drain(t *testing.T, r *stream.Reader, pause time.Duration) error {
	for {
		time.Sleep(pause)
		if _, err := r.Next(t.Context()); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}
