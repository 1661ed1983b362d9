package weir_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/limit"
)

// faults are the ways in which a user's function does not return.
var faults = map[string]struct {
	fault func()
	is    func(error) bool
}{
	"panic": {func() { panic("boom") }, func(err error) bool {
		var p *weir.PanicError
		return errors.As(err, &p) && p.Value == "boom" && strings.Contains(string(p.Stack), "guard_panic_test.go")
	}},
	"panic with an error": {func() { panic(errDown) }, func(err error) bool {
		var p *weir.PanicError
		return errors.As(err, &p) && p.Value == errDown
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

// ways are the ways to wait for a load.
var ways = map[string]func(*weir.Guard[string, int], context.Context) weir.Result[int]{
	"Get": func(g *weir.Guard[string, int], ctx context.Context) weir.Result[int] {
		v, err := g.Get(ctx, "k")
		return weir.Result[int]{Value: v, Err: err}
	},
	"GetResult": func(g *weir.Guard[string, int], ctx context.Context) weir.Result[int] { return g.GetResult(ctx, "k") },
	"Refresh": func(g *weir.Guard[string, int], ctx context.Context) weir.Result[int] {
		return g.RefreshResult(ctx, "k")
	},
	"GetMany": func(g *weir.Guard[string, int], ctx context.Context) weir.Result[int] {
		results := g.GetMany(ctx, []string{"other", "k"})
		for _, r := range results {
			if (r.Err == nil) != (results["k"].Err == nil) {
				return weir.Result[int]{Err: errors.New("the other key fares otherwise")}
			}
		}
		return results["k"]
	},
}

func concurrency(s *story, o limit.ConcurrencyOptions) *limit.Concurrency {
	s.Helper()
	c, err := limit.NewConcurrency(o)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { // runs after the Guards are closed, if they were made later
		if st := c.Stats(); st.InUse != 0 || st.Queued != 0 {
			s.Errorf("%d permits out, %d callers queued at the end; want none", st.InUse, st.Queued)
		}
	})
	return c
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
			for way, call := range ways {
				t.Run(fault+"/"+kind+"/"+way, func(t *testing.T) {
					tell(t, func(s *story) {
						do := f.fault
						src := weighed(faulty(func() { do() })[kind])
						g := guardFrom(s, src, weir.Options{TTL: time.Minute, MaxWeight: 100,
							Limiter: concurrency(s, limit.ConcurrencyOptions{Limit: 2})})
						first := s.ask(func() weir.Result[int] { return call(g, s.Context()) })
						var followers []*answer
						for _, join := range ways {
							followers = append(followers, s.ask(func() weir.Result[int] { return join(g, s.Context()) }))
						}
						<-first.done
						if first.Value != 0 || !f.is(first.Err) || first.at != 2*ms {
							s.Errorf("first caller: %d, %v at %v; want 0 and the fault at 2ms", first.Value, first.Err, first.at)
						}
						for _, a := range followers {
							<-a.done
							if a.Value != 0 || !f.is(a.Err) || a.at != 2*ms {
								s.Errorf("follower: %d, %v at %v; want 0 and the fault at 2ms", a.Value, a.Err, a.at)
							}
						}
						s.at(3 * ms)
						wantGauges(s, g, weir.Stats{})
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
				tell(t, func(s *story) {
					do := func() {}
					src := weighed(faulty(func() { do() })[kind])
					g := guardFrom(s, src, weir.Options{TTL: time.Second, StaleWhileRevalidate: time.Minute, MaxWeight: 100,
						Limiter: concurrency(s, limit.ConcurrencyOptions{Limit: 2})})
					g.Get(s.Context(), "k")
					do = f.fault
					for i, row := range []struct {
						at     time.Duration
						panics uint64
					}{{2 * time.Second, 1}, {2900 * ms, 1}, {3010 * ms, 2}} {
						s.at(row.at)
						if v, err := g.Get(s.Context(), "k"); v != 1 || err != nil {
							s.Errorf("Get %d = %d, %v; want the stale 1, nil", i, v, err)
						}
						s.at(row.at + 5*ms)
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
			tell(t, func(s *story) {
				g := guardFrom(s, faulty(f.fault)["Load"], weir.Options{Limiter: concurrency(s, limit.ConcurrencyOptions{Limit: 1})})
				s.want(s.get(s.until(ms), g, "k"), 0, context.DeadlineExceeded, ms)
				s.at(5 * ms) // the process survives
				wantGauges(s, g, weir.Stats{})
			})
		})
	}
}

// A fault after the hard timeout releases the permit and ends the load's count
// as stuck.
func TestF6FaultOfAStuckLoad(t *testing.T) {
	for fault, f := range faults {
		t.Run(fault, func(t *testing.T) {
			tell(t, func(s *story) {
				c := concurrency(s, limit.ConcurrencyOptions{Limit: 1})
				g := guardFrom(s, faulty(f.fault)["Load"], weir.Options{LoadTimeout: ms, Limiter: c})
				s.want(s.get(s.Context(), g, "k"), 0, context.DeadlineExceeded, ms)
				wantGauges(s, g, weir.Stats{Running: 1, Stuck: 1})
				s.at(2 * ms)
				wantGauges(s, g, weir.Stats{})
				if n := c.Stats().InUse; n != 0 {
					s.Errorf("%d permits out; want 0", n)
				}
			})
		})
	}
}

// If Classify panics, the error is transient.
func TestF6ClassifyThatPanics(t *testing.T) {
	tell(t, func(s *story) {
		g := s.guard((&mill{takes: ms, err: errDown}).load, weir.Options{
			Classify:    func(error) weir.Class { panic("boom") },
			FailureMemo: weir.FailureMemo{Transient: weir.Backoff{Initial: time.Minute}},
		})
		a, b := s.get(s.Context(), g, "k"), s.get(s.Context(), g, "k")
		s.want(a, 0, errDown, ms)
		s.want(b, 0, errDown, ms)
		if n := g.Stats().MemoHits; n != 0 {
			s.Errorf("MemoHits = %d; want 0", n)
		}
		s.want(s.get(s.Context(), g, "k"), 0, errDown, ms) // from the memo
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
	tell(t, func(s *story) {
		m := &mill{takes: ms}
		c := concurrency(s, limit.ConcurrencyOptions{Limit: 1, Queue: -1})
		g := s.guard(m.load, weir.Options{TTL: time.Second, StaleIfError: time.Minute, LoadTimeout: time.Second, Limiter: c, Observer: rude{}})
		a, b := s.get(s.Context(), g, "k"), s.get(s.Context(), g, "k")
		s.want(s.get(s.Context(), g, "refused"), 0, limit.ErrLimited, 0)
		s.want(a, 1, nil, ms)
		s.want(b, 1, nil, ms)
		s.at(2 * time.Second)
		m.err = errDown
		s.want(s.get(s.Context(), g, "k"), 1, nil, 2001*ms) // stale on error
		m.deaf, m.takes = true, 2*time.Second
		s.want(s.get(s.until(2100*ms), g, "left"), 0, context.DeadlineExceeded, 2100*ms)
		s.at(10 * time.Second) // it has timed out too, and returned
		if n := g.Stats().ObserverPanics; n < 12 {
			s.Errorf("ObserverPanics = %d; want all counted", n)
		}
	})
}

// A panic of Clone happens in its caller, and does not affect the flight.
func TestF6CloneThatPanics(t *testing.T) {
	tell(t, func(s *story) {
		rotten := true
		g := guardFrom(s, weir.Source[string, int]{Load: (&mill{takes: ms}).load, Clone: func(v int) int {
			if rotten {
				panic("boom")
			}
			return v
		}}, weir.Options{TTL: time.Minute})
		for way, call := range ways {
			func() {
				defer func() {
					if r := recover(); r != "boom" {
						s.Errorf("%s: recovered %v; want the panic of Clone", way, r)
					}
				}()
				call(g, s.Context())
			}()
		}
		s.at(s.now())
		wantGauges(s, g, weir.Stats{})
		rotten = false
		if _, err := g.Get(s.Context(), "k"); err != nil {
			s.Errorf("Get = %v; want nil", err)
		}
	})
}

// A user's limiter that panics in Release affects no caller.
func TestF6LimiterThatPanicsInRelease(t *testing.T) {
	tell(t, func(s *story) {
		m := &mill{}
		g := s.guard(m.load, weir.Options{Limiter: limiterFunc(func(context.Context) (limit.Permit, error) {
			return limit.NewPermit(func(limit.Outcome) { panic("release") }), nil
		})})
		s.want(s.get(s.Context(), g, "k"), 1, nil, 0)
		if n := g.Stats().Panics; n != 1 {
			s.Errorf("Panics = %d; want 1", n)
		}
	})
}
