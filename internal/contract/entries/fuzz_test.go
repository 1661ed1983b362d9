package entries_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/contract/rig"
	"github.com/weir-go/weir/internal/histories"
)

// A dice takes choices from the fuzzer's bytes; zeros when they run out.
type dice struct{ b []byte }

func (d *dice) next() byte {
	if len(d.b) == 0 {
		return 0
	}
	c := d.b[0]
	d.b = d.b[1:]
	return c
}

func (d *dice) more() bool { return len(d.b) > 0 }

func pick[T any](d *dice, from ...T) T { return from[int(d.next())%len(from)] }

func (d *dice) duration() time.Duration {
	return pick(d, 0, 0, 1, 2, ms, sec, 90*sec, time.Hour, math.MaxInt64/2, math.MaxInt64-1, math.MaxInt64, -1, math.MinInt64)
}

func (d *dice) share() float64 {
	return pick(d, 0, 0, 0.1, 0.25, 0.5, 0.8, 1-1e-16, 1, math.SmallestNonzeroFloat64, -0.1, -1, 7, math.NaN(), math.Inf(1), math.Inf(-1))
}

func (d *dice) number() int {
	return pick(d, 0, 0, 1, 2, 1000, math.MaxInt32, math.MaxInt, -1, math.MinInt)
}

func (d *dice) backoff() weir.Backoff { return weir.Backoff{Initial: d.duration(), Max: d.duration()} }

// FuzzOptions: Options that Validate accepts make a working Guard, others are
// an *OptionError, and nothing panics.
func FuzzOptions(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{5, 4, 5, 2, 5, 5, 6, 5, 5, 5, 0, 0, 0, 0, 6, 5, 0, 3, 0, 3, 3})
	f.Add([]byte{10, 4, 6, 1, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 6, 0, 6, 6})
	f.Add([]byte{2, 4, 6, 8, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 2, 2})
	f.Add([]byte{5, 0, 12, 12, 11, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 7, 8})
	f.Add([]byte{6, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 11})
	f.Fuzz(func(t *testing.T, b []byte) {
		d := &dice{b}
		o := weir.Options{
			TTL: d.duration(), TTLJitter: d.share(), RefreshAhead: d.share(), RefreshJitter: d.share(),
			RefreshRetry: d.duration(), StaleWhileRevalidate: d.duration(), StaleIfError: d.duration(), NegativeTTL: d.duration(),
			FailureMemo: weir.FailureMemo{Transient: d.backoff(), Permanent: d.backoff(), Overload: d.backoff()},
			LoadTimeout: d.duration(), SoftTimeout: d.duration(), AbandonGrace: d.duration(),
			MaxEntries: d.number(), MaxWeight: uint64(max(d.number(), 0)), MaxRefreshes: d.number(), MaxStuck: d.number(),
			RefreshBeta: d.share(), RefreshRetryMax: d.duration(),
			Batch: weir.Batching{MaxSize: d.number(), Linger: pick(d, 0, 1, ms, time.Hour, -1), MaxParallel: d.number()},
		}
		o.Advice()
		play := func(t *testing.T) {
			failing := false
			load := func(context.Context, int) (int, error) {
				if failing {
					return 0, rig.ErrDown
				}
				return 7, nil
			}
			src := weir.Source[int, int]{Load: load, LoadMany: rig.Singly(load)}
			if o.MaxWeight > 0 {
				src.Weigh = func(int, int) uint32 { return 1 }
			}
			g, err := weir.NewFrom(src, o)
			if valid := o.Validate(); valid != nil {
				if err == nil || !errors.As(valid, new(*weir.OptionError)) || err.Error() != valid.Error() {
					t.Fatalf("New = %v where Validate = %v", err, valid)
				}
				return
			}
			if err != nil {
				t.Fatalf("New = %v where Validate = nil", err)
			}
			ctx := t.Context()
			if r := g.GetResult(ctx, 1); r.Err != nil || r.Value != 7 || r.State != weir.StateLoaded {
				t.Errorf("the first Get = %+v; want 7, loaded", r)
			}
			synctest.Wait()
			failing = true
			r := g.GetResult(ctx, 1)
			if o.TTL > 0 {
				if r.Value != 7 || r.State != weir.StateFresh {
					t.Errorf("Get within the TTL = %+v; want 7, fresh", r)
				}
			} else if !errors.Is(r.Err, rig.ErrDown) {
				t.Errorf("Get without a TTL = %+v; want a failing load", r)
			}
			synctest.Wait()
			if r := g.GetResult(ctx, 2); !errors.Is(r.Err, rig.ErrDown) {
				t.Errorf("Get = %+v; want %v", r, rig.ErrDown)
			}
			// At the latest time of the bubble's clock, nothing appears younger
			// than it is.
			time.Sleep(100 * 365 * 24 * time.Hour)
			r = g.GetResult(ctx, 1)
			if bound := add(o.TTL, max(o.StaleWhileRevalidate, o.StaleIfError)); r.Err == nil && (o.TTL == 0 || r.Age >= bound) {
				t.Errorf("Get after a century = %+v; want nothing of an age beyond %v", r, bound)
			} else if alone := o.MaxEntries == 1 || o.MaxWeight == 1; r.Err != nil && !alone && o.TTLJitter == 0 && o.TTL > 100*365*24*time.Hour {
				t.Errorf("Get after a century = %+v; want a TTL of %v to hold", r, o.TTL)
			}
			if err := g.Close(ctx); err != nil {
				t.Errorf("Close = %v", err)
			}
		}
		synctest.Test(t, play)
	})
}

// add returns a+b, or the largest Duration if that overflows.
func add(a, b time.Duration) time.Duration {
	if s := a + b; s >= a {
		return s
	}
	return math.MaxInt64
}

// A ledger is the reference model for one key: the four instants, the memo and
// the writes as documented, without concurrency.
type ledger struct {
	o                              weir.Options
	kind                           byte // 'v' value, 'n' negative, 0 nothing
	value                          int
	at, fresh, stale, err, refresh time.Duration
	memoUntil                      time.Duration // 0: none
	memoRow, failures              int
	loads                          int
}

// load is a load that ends at now with err.
func (l *ledger) load(now time.Duration, err error) {
	l.loads++
	switch {
	case err == nil:
		l.set(now, l.loads)
	case err == weir.ErrNotFound:
		*l = ledger{o: l.o, loads: l.loads}
		if l.o.NegativeTTL > 0 {
			l.kind, l.at, l.fresh = 'n', now, now+l.o.NegativeTTL
			l.refresh = l.fresh
			if l.o.RefreshAhead > 0 {
				l.refresh = l.fresh - time.Duration(float64(l.o.NegativeTTL)*l.o.RefreshAhead)
			}
		}
	default:
		pause := l.o.RefreshRetry
		for range l.failures {
			pause = min(2*pause, l.o.RefreshRetryMax)
		}
		l.failures++
		retry := now + pause
		if first := l.o.FailureMemo.Transient.Initial; first > 0 && (l.kind != 'n' || now >= l.fresh) {
			l.memoRow++
			wait := first
			for range l.memoRow - 1 {
				wait = min(2*wait, l.o.FailureMemo.Transient.Max)
			}
			l.memoUntil = now + wait
			retry = max(retry, l.memoUntil)
			if l.kind == 'n' {
				l.kind = 0
			}
		}
		l.refresh = max(l.refresh, retry)
	}
}

func (l *ledger) set(now time.Duration, v int) {
	o := l.o
	*l = ledger{o: o, loads: l.loads}
	if o.TTL == 0 {
		return
	}
	l.kind, l.value, l.at, l.fresh = 'v', v, now, now+o.TTL
	l.stale = l.fresh + o.StaleWhileRevalidate
	l.err = max(l.stale, l.fresh+o.StaleIfError)
	l.refresh = l.fresh
	if o.RefreshAhead > 0 {
		l.refresh = l.fresh - time.Duration(float64(o.TTL)*o.RefreshAhead)
	}
}

func (l *ledger) expire(now time.Duration) {
	if l.kind != 'v' {
		*l = ledger{o: l.o, loads: l.loads}
		return
	}
	early := max(0, l.fresh-now)
	l.fresh -= early
	l.stale -= early
	l.err -= early
	l.refresh = l.fresh
	l.memoUntil, l.memoRow, l.failures = 0, 0, 0
}

// get is a Get at now whose load, if there is one, takes takes and ends with
// err. It returns the answer, its time, and the time when nothing runs any
// more.
func (l *ledger) get(now, takes time.Duration, err error) (want weir.Result[int], answered, rest time.Duration) {
	age := now - l.at
	switch {
	case l.kind == 'n' && now < l.fresh:
		if now < l.refresh {
			return rig.Negative(weir.FromMemory, age), now, now
		}
		l.load(now+takes, err)
		return rig.Negative(weir.FromMemory, age), now, now + takes
	case l.kind == 'v' && now < l.stale:
		want = rig.Fresh(l.value, age)
		if now >= l.fresh {
			want = rig.Stale(l.value, age)
		}
		if now < l.refresh {
			return want, now, now
		}
		l.load(now+takes, err)
		return want, now, now + takes
	case now < l.memoUntil && l.kind == 'v' && now < l.err:
		return rig.StaleOnError(l.value, age, rig.ErrDown), now, now
	case now < l.memoUntil:
		return rig.Remembered(rig.ErrDown), now, now
	}
	end := now + takes
	served := l.kind == 'v' && end < l.err
	old := *l
	l.load(end, err)
	switch {
	case err == nil:
		want = rig.Loaded(l.loads)
	case err == weir.ErrNotFound:
		want = rig.Negative(weir.FromLoad, 0)
	case served:
		want = rig.StaleOnError(old.value, end-old.at, rig.ErrDown)
	default:
		want = rig.Failure(rig.ErrDown)
	}
	return want, end, end
}

// FuzzInstants compares a history of Gets, writes, outages and advances of the
// clock with the ledger. In no history is an answer older than the bound.
func FuzzInstants(f *testing.F) {
	f.Add([]byte{3, 1, 2, 3, 1, 2, 1, 0, 0, 0, 1, 5, 1, 1, 0, 9, 5, 2, 1, 0, 1, 6, 1, 2, 0, 1, 8, 1, 0})
	f.Add([]byte{3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 7, 1, 1, 0, 9, 7, 2, 1, 0})
	f.Add([]byte{2, 2, 2, 2, 2, 2, 2, 0, 0, 0, 3, 1, 1, 1, 0, 4, 1, 9, 1, 1, 5, 1, 2, 2, 1, 9, 9, 9})
	f.Add([]byte("the four instants of an entry, and a failing source, and a few writes between them all"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < 400 {
			instants(t, b)
		}
	})
}

// TestE1RandomHistories is FuzzInstants for every run of the tests.
func TestE1RandomHistories(t *testing.T) {
	for seed := range histories.Seeds(t, 100, 1000) {
		b, key := make([]byte, 300), [32]byte{}
		binary.LittleEndian.PutUint64(key[:], seed)
		rand.NewChaCha8(key).Read(b)
		instants(t, b)
	}
}

// instants plays the history that b encodes.
func instants(t *testing.T, b []byte) {
	t.Helper()
	d := &dice{b}
	some := func() time.Duration { return pick(d, 0, ms, 333*ms, 2*sec, 7*sec, 60*sec) }
	o := weir.Options{
		TTL: some(), RefreshAhead: pick(d, 0, 0.5, 0.2), RefreshJitter: -1, RefreshRetry: max(some(), ms),
		StaleWhileRevalidate: some(), StaleIfError: some(), NegativeTTL: some(), LoadTimeout: time.Hour,
	}
	o.RefreshRetryMax = o.RefreshRetry * pick(d, time.Duration(1), 3, 8)
	if first := some(); first > 0 {
		o.FailureMemo.Transient = weir.Backoff{Initial: first, Max: 3 * first}
	}
	var gathered func(src *weir.Source[string, int])
	if d.next()%2 == 0 {
		o.Batch = weir.Batching{MaxSize: 2, Linger: some(), MaxParallel: 1}
		gathered = func(src *weir.Source[string, int]) {
			entry := src.LoadEntry
			src.LoadEntries = func(ctx context.Context, keys []string, prev []weir.Previous[int]) (map[string]weir.Entry[int], error) {
				e, err := entry(ctx, keys[0], prev[0]) // there is only one key
				if err != nil {
					return nil, err
				}
				return map[string]weir.Entry[int]{keys[0]: e}, nil
			}
			if d.next()%2 == 0 {
				src.LoadEntry = nil
			}
		}
	}
	rig.PlayFrom(t, o, gathered, func(s *rig.Scene) {
		l := &ledger{o: o}
		bound := o.TTL + max(o.StaleWhileRevalidate, o.StaleIfError)
		for d.more() {
			now := s.Now()
			switch d.next() % 8 {
			case 0: // to an instant of the ledger, or just before it
				to := pick(d, l.fresh, l.stale, l.err, l.refresh, l.memoUntil, l.at) - time.Duration(d.next()%2)
				if to > now {
					s.Until(to)
				}
			case 1:
				s.Until(now + pick(d, 0, 1, 333*ms, 2*sec, 7*sec, 60*sec))
			case 2:
				s.G.Expire(s.Context(), "k")
				l.expire(now)
			case 3:
				s.G.Invalidate(s.Context(), "k")
				*l = ledger{o: o, loads: l.loads}
			case 4:
				s.G.Set(s.Context(), "k", -1)
				l.set(now, -1)
			default:
				takes, err := pick(d, 0, 0, 1, 333*ms, 7*sec), pick(d, nil, rig.ErrDown, rig.ErrDown, weir.ErrNotFound)
				s.Set(takes, err)
				until := l.fresh
				want, answered, rest := l.get(now, o.Batch.Linger+takes, err)
				got := s.Get("k")
				s.Want(got, want)
				if s.Now() != answered {
					s.Errorf("answered at %v; want %v", s.Now(), answered)
				}
				if got.State == weir.StateFresh && got.FreshFor != until-now {
					s.Errorf("FreshFor = %v; want %v", got.FreshFor, until-now)
				}
				if got.Err == nil && got.State != weir.StateLoaded && got.Age >= bound {
					s.Errorf("served at an age of %v; want less than %v", got.Age, bound)
				}
				s.Until(rest)
				s.WantLoads(l.loads)
			}
			if s.Failed() {
				s.Fatalf("options %+v, ledger %+v", o, *l)
			}
		}
	})
}
