package weir

import (
	"math"
	"testing"
	"unsafe"
)

// A hit on an entry with a value of one word touches one cache line.
func TestEntryIs64Bytes(t *testing.T) {
	if n := unsafe.Sizeof(entry[*int]{}); n != 64 {
		t.Errorf("an entry takes %d bytes; want 64", n)
	}
}

// E2: delta is the measured time, to within 0.4 %, however short or long.
func TestE2LoadTimeIsKeptWithin04Percent(t *testing.T) {
	if got := newLoadTime(0).nanoseconds(); got != 0 {
		t.Errorf("no time is kept as %v ns; want 0", got)
	}
	for d := 1.0; d < math.MaxInt64; d *= 1.001 {
		want := float64(int64(d))
		if got := newLoadTime(int64(d)).nanoseconds(); math.Abs(got-want) > 0.004*want {
			t.Fatalf("%v ns are kept as %v; want them within 0.4 %%", want, got)
		}
	}
	if got := newLoadTime(math.MaxInt64).nanoseconds(); math.Abs(got-math.MaxInt64) > 0.004*math.MaxInt64 {
		t.Errorf("the longest time is kept as %v ns; want %v", got, float64(math.MaxInt64))
	}
}

// E2: hits draw from the instant at which a draw succeeds with probability
// e^-28, which is within the entry's lifetime for any beta.
func TestE2DrawsBeginWhereTheyMatter(t *testing.T) {
	const sec, ttl = int64(1e9), int64(60e9)
	unit := newLoadTime(sec).nanoseconds() / 1e9 // the unit that one second is kept in
	for _, row := range []struct {
		name string
		took int64
		beta float64
		want float64 // seconds after the load's end
	}{
		{"paper", sec, 1, 60 - 28*unit},
		{"half", sec, 0.5, 60 - 14*unit},
		{"long load", 30 * sec, 1, 0},
		{"huge beta", 1, math.MaxFloat64, 0},
		{"no time", 0, math.MaxFloat64, 60},
		{"no time, beta 1", 0, 1, 60},
		{"tiny beta", sec, math.SmallestNonzeroFloat64, 60},
	} {
		e := &entry[int]{loadedAt: 7, freshUntil: 7 + ttl, took: newLoadTime(row.took)}
		got := float64(e.drawFrom(row.beta)-7) / 1e9
		if math.Abs(got-row.want) > 1e-6 {
			t.Errorf("%s: draws from %v s; want %v", row.name, got, row.want)
		}
		if row.took == 0 && e.draws(row.beta, 6+ttl) {
			t.Errorf("%s: refreshes a nanosecond before the TTL; want no early refresh", row.name)
		}
	}
}
