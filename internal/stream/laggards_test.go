package stream_test

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/stream"
)

func TestH4_TheWindowGrowsForSlowReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		money := newBudget(1 << 20)
		b := stream.New(stream.Options{
			Size: -1, Limit: 16, Window: 64, Patience: time.Second, Reserve: money.reserve, Grow: money.reserve,
		})
		fast, slow, stuck := join(t, b), join(t, b), join(t, b)
		go drain(t, fast, 0)
		want := pattern(1600)
		start := time.Now()
		for i := 0; i < len(want); i += 16 {
			write(t, b, want[i:i+16])
			synctest.Wait()
		}
		b.Finish(nil, nil)
		if took := time.Since(start); took != 0 {
			t.Errorf("writing took %v; want 0: a window that grows delays no reader", took)
		}
		reads(t, slow, want)
		if got := money.used.Load(); got < 1600 {
			t.Errorf("%d bytes are reserved while a reader needs all of them; want at least 1600", got)
		}
		for range 50 {
			if _, err := stuck.Next(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if got := money.used.Load(); got > 1600/2+64+16 {
			t.Errorf("%d bytes are reserved while the last reader needs half of them; want about 800", got)
		}
		stuck.Close()
		if got := money.used.Load(); got != 0 {
			t.Errorf("%d bytes are reserved without a reader; want 0", got)
		}
	})
}

// A window that cannot grow further keeps what it has: only the slowest readers fall
// behind, after Patience.
func TestH4_WithoutRoomTheSlowestFallBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		money := newBudget(64 + 16 + 160)
		b := stream.New(stream.Options{
			Size: -1, Limit: 0, Window: 64, Patience: time.Second, Reserve: money.reserve, Grow: money.reserve,
		})
		fast, slow, stuck := join(t, b), join(t, b), join(t, b)
		go drain(t, fast, 0)
		want := pattern(1600)
		got := make([]byte, 0, len(want))
		start := time.Now()
		for i := 0; i < len(want); i += 16 {
			write(t, b, want[i:i+16])
			if i >= 160 { // this reader is always ten chunks behind
				p, err := slow.Next(t.Context())
				if err != nil {
					t.Fatalf("slow.Next at %d of %d = %v", len(got), i, err)
				}
				got = append(got, p...)
			}
			synctest.Wait()
		}
		b.Finish(nil, nil)
		if took := time.Since(start); took != time.Second {
			t.Errorf("writing took %v; want %v, for the stuck reader", took, time.Second)
		}
		rest, err := readAll(t.Context(), slow)
		if got = append(got, rest...); err != io.EOF || !bytes.Equal(got, want) {
			t.Errorf("the slow reader got %d bytes of %d, %v", len(got), len(want), err)
		}
		if p, err := stuck.Next(t.Context()); !errors.Is(err, stream.ErrLagged) || stuck.Pos() != 0 {
			t.Errorf("the stuck reader at %d got %d bytes, %v; want ErrLagged", stuck.Pos(), len(p), err)
		}
		if m := money.most.Load(); m > money.bound.Load() {
			t.Errorf("%d bytes were reserved; want at most %d", m, money.bound.Load())
		}
		b.Release()
		if u := money.used.Load(); u != 0 {
			t.Errorf("%d bytes are reserved after Release; want 0", u)
		}
	})
}
