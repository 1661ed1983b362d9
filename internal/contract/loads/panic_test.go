package loads_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/contract/rig"
	"github.com/weir-go/weir/limit"
)

// faults are the ways in which a user's function does not return.
var faults = map[string]struct {
	fault func()
	is    func(error) bool
}{
	"panic": {func() { panic("boom") }, func(err error) bool {
		var p *weir.PanicError
		return errors.As(err, &p) && p.Value == "boom" && strings.Contains(string(p.Stack), "panic_test.go")
	}},
	"panic with an error": {func() { panic(rig.ErrDown) }, func(err error) bool {
		var p *weir.PanicError
		return errors.As(err, &p) && p.Value == rig.ErrDown
	}},
	"panic nil": {func() { panic(nil) }, func(err error) bool {
		var p *weir.PanicError
		return errors.As(err, &p) && p.Value != nil // a *runtime.PanicNilError
	}},
	"goexit": {runtime.Goexit, func(err error) bool { return errors.Is(err, weir.ErrGoexit) }},
}

// faulty returns a Source of each kind, whose functions call do.
func faulty(do func()) map[string]weir.Source[string, int] {
	wait := func() { time.Sleep(2 * ms); do() }
	return map[string]weir.Source[string, int]{
		"Load": {Load: func(context.Context, string) (int, error) { wait(); return 1, nil }},
		"LoadEntry": {LoadEntry: func(context.Context, string, weir.Previous[int]) (weir.Entry[int], error) {
			wait()
			return weir.Entry[int]{Value: 1}, nil
		}},
		"LoadMany": {LoadMany: func(_ context.Context, keys []string) (map[string]int, error) {
			wait()
			values := make(map[string]int)
			for _, key := range keys {
				values[key] = 1
			}
			return values, nil
		}},
		"Weigh": {
			Load:  func(context.Context, string) (int, error) { time.Sleep(2 * ms); return 1, nil },
			Weigh: func(string, int) uint32 { do(); return 1 },
		},
		"LoadContext": {
			Load:        func(context.Context, string) (int, error) { return 1, nil },
			LoadContext: func(ctx context.Context) context.Context { wait(); return ctx },
		},
	}
}

// weighed returns src with a Weigh.
func weighed(src weir.Source[string, int]) weir.Source[string, int] {
	if src.Weigh == nil {
		src.Weigh = func(string, int) uint32 { return 1 }
	}
	return src
}

func TestF6FaultReachesEveryJoiner(t *testing.T) {
	for fault, f := range faults {
		for kind := range faulty(nil) {
			for way, call := range rig.Ways {
				t.Run(fault+"/"+kind+"/"+way, func(t *testing.T) {
					rig.Tell(t, func(s *rig.Story) {
						do := f.fault
						src := weighed(faulty(func() { do() })[kind])
						g := rig.GuardFrom(s, src, weir.Options{TTL: time.Minute, MaxWeight: 100,
							Limiter: rig.Concurrency(s, limit.ConcurrencyOptions{Limit: 2})})
						first := s.Ask(func() weir.Result[int] { return call(g, s.Context()) })
						var followers []*rig.Answer
						for _, join := range rig.Ways {
							followers = append(followers, s.Ask(func() weir.Result[int] { return join(g, s.Context()) }))
						}
						<-first.Done
						if first.Value != 0 || !f.is(first.Err) || first.At != 2*ms {
							s.Errorf("first caller: %d, %v at %v; want 0 and the fault at 2ms", first.Value, first.Err, first.At)
						}
						for _, a := range followers {
							<-a.Done
							if a.Value != 0 || !f.is(a.Err) || a.At != 2*ms {
								s.Errorf("follower: %d, %v at %v; want 0 and the fault at 2ms", a.Value, a.Err, a.At)
							}
						}
						s.At(3 * ms)
						rig.WantGauges(s, g, weir.Stats{})
						if n := g.Stats().Panics; n == 0 {
							s.Error("Panics = 0; want them counted")
						}
						do = func() {}
						if r := call(g, s.Context()); r.Value != 1 || r.Err != nil {
							s.Errorf("next caller: %d, %v; want 1, nil", r.Value, r.Err)
						}
					})
				})
			}
		}
	}
}

// If a background refresh panics or exits, the value stays, its permit is
// released, and the next refresh is tried after RefreshRetry.
func TestF6FaultInBackgroundRefresh(t *testing.T) {
	for fault, f := range faults {
		for kind := range faulty(nil) {
			t.Run(fault+"/"+kind, func(t *testing.T) {
				rig.Tell(t, func(s *rig.Story) {
					do := func() {}
					src := weighed(faulty(func() { do() })[kind])
					g := rig.GuardFrom(s, src, weir.Options{TTL: time.Second, StaleWhileRevalidate: time.Minute, MaxWeight: 100,
						Limiter: rig.Concurrency(s, limit.ConcurrencyOptions{Limit: 2})})
					g.Get(s.Context(), "k")
					do = f.fault
					for i, row := range []struct {
						at     time.Duration
						panics uint64
					}{{2 * time.Second, 1}, {2900 * ms, 1}, {3010 * ms, 2}} {
						s.At(row.at)
						if v, err := g.Get(s.Context(), "k"); v != 1 || err != nil {
							s.Errorf("Get %d = %d, %v; want the stale 1, nil", i, v, err)
						}
						s.At(row.at + 5*ms)
						if st := g.Stats(); st.Panics != row.panics || st.Refreshing != 0 {
							s.Errorf("at %v: Panics, Refreshing = %d, %d; want %d, 0", row.at, st.Panics, st.Refreshing, row.panics)
						}
					}
				})
			})
		}
	}
}

// The function panics after the callers have left: nothing else is affected.
func TestF6FaultAfterAbandonment(t *testing.T) {
	for fault, f := range faults {
		t.Run(fault, func(t *testing.T) {
			rig.Tell(t, func(s *rig.Story) {
				g := rig.GuardFrom(s, faulty(f.fault)["Load"], weir.Options{Limiter: rig.Concurrency(s, limit.ConcurrencyOptions{Limit: 1})})
				s.Want(s.Get(s.Until(ms), g, "k"), 0, context.DeadlineExceeded, ms)
				s.At(5 * ms) // the process survives
				rig.WantGauges(s, g, weir.Stats{})
			})
		})
	}
}

// A fault after the hard timeout releases the permit and ends the load's count
// as stuck.
func TestF6FaultOfAStuckLoad(t *testing.T) {
	for fault, f := range faults {
		t.Run(fault, func(t *testing.T) {
			rig.Tell(t, func(s *rig.Story) {
				c := rig.Concurrency(s, limit.ConcurrencyOptions{Limit: 1})
				g := rig.GuardFrom(s, faulty(f.fault)["Load"], weir.Options{LoadTimeout: ms, Limiter: c})
				s.Want(s.Get(s.Context(), g, "k"), 0, context.DeadlineExceeded, ms)
				rig.WantGauges(s, g, weir.Stats{Running: 1, Stuck: 1})
				s.At(2 * ms)
				rig.WantGauges(s, g, weir.Stats{})
				if n := c.Stats().InUse; n != 0 {
					s.Errorf("%d permits out; want 0", n)
				}
			})
		})
	}
}

// If Classify panics, the error is transient.
func TestF6ClassifyThatPanics(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		g := s.Guard((&rig.Mill{Takes: ms, Err: rig.ErrDown}).Load, weir.Options{
			Classify:    func(error) weir.Class { panic("boom") },
			FailureMemo: weir.FailureMemo{Transient: weir.Backoff{Initial: time.Minute}},
		})
		a, b := s.Get(s.Context(), g, "k"), s.Get(s.Context(), g, "k")
		s.Want(a, 0, rig.ErrDown, ms)
		s.Want(b, 0, rig.ErrDown, ms)
		if n := g.Stats().MemoHits; n != 0 {
			s.Errorf("MemoHits = %d; want 0", n)
		}
		s.Want(s.Get(s.Context(), g, "k"), 0, rig.ErrDown, ms) // from the memo
		if n := g.Stats().MemoHits; n != 1 {
			s.Errorf("MemoHits = %d; want 1", n)
		}
	})
}

// rude is an Observer that panics in each of its methods.
type rude struct{}

func (rude) LoadStart(context.Context, weir.LoadInfo) context.Context { panic("start") }
func (rude) LoadEnd(context.Context, weir.LoadInfo, weir.LoadEnd)     { panic("end") }
func (rude) Waited(context.Context, weir.Wait)                        { panic("waited") }
func (rude) Event(context.Context, weir.Event)                        { panic("event") }

func TestF6ObserverThatPanics(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		m := &rig.Mill{Takes: ms}
		c := rig.Concurrency(s, limit.ConcurrencyOptions{Limit: 1, Queue: -1})
		g := s.Guard(m.Load, weir.Options{TTL: time.Second, StaleIfError: time.Minute, LoadTimeout: time.Second, Limiter: c, Observer: rude{}})
		a, b := s.Get(s.Context(), g, "k"), s.Get(s.Context(), g, "k")
		s.Want(s.Get(s.Context(), g, "refused"), 0, limit.ErrLimited, 0)
		s.Want(a, 1, nil, ms)
		s.Want(b, 1, nil, ms)
		s.At(2 * time.Second)
		m.Err = rig.ErrDown
		s.Want(s.Get(s.Context(), g, "k"), 1, nil, 2001*ms) // stale on error
		m.Deaf, m.Takes = true, 2*time.Second
		s.Want(s.Get(s.Until(2100*ms), g, "left"), 0, context.DeadlineExceeded, 2100*ms)
		s.At(10 * time.Second) // it has timed out too, and returned
		if n := g.Stats().ObserverPanics; n < 12 {
			s.Errorf("ObserverPanics = %d; want all counted", n)
		}
	})
}

// A panic of Clone happens in its caller, and does not affect the flight.
func TestF6CloneThatPanics(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		rotten := true
		g := rig.GuardFrom(s, weir.Source[string, int]{Load: (&rig.Mill{Takes: ms}).Load, Clone: func(v int) int {
			if rotten {
				panic("boom")
			}
			return v
		}}, weir.Options{TTL: time.Minute})
		for way, call := range rig.Ways {
			func() {
				defer func() {
					if r := recover(); r != "boom" {
						s.Errorf("%s: recovered %v; want the panic of Clone", way, r)
					}
				}()
				call(g, s.Context())
			}()
		}
		s.At(s.Now())
		rig.WantGauges(s, g, weir.Stats{})
		rotten = false
		if _, err := g.Get(s.Context(), "k"); err != nil {
			s.Errorf("Get = %v; want nil", err)
		}
	})
}

// A user's limiter that panics in Release affects no caller.
func TestF6LimiterThatPanicsInRelease(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		m := &rig.Mill{}
		g := s.Guard(m.Load, weir.Options{Limiter: rig.LimiterFunc(func(context.Context) (limit.Permit, error) {
			return limit.NewPermit(func(limit.Outcome) { panic("release") }), nil
		})})
		s.Want(s.Get(s.Context(), g, "k"), 1, nil, 0)
		if n := g.Stats().Panics; n != 1 {
			s.Errorf("Panics = %d; want 1", n)
		}
	})
}
