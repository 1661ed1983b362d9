package choose_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/weir-go/weir/gateway/internal/upstream/choose"
)

var seeds = []uint64{1, 2, 3}

// loads runs test with few and many clients and with an open loop, at three seeds.
func loads(t *testing.T, servers int, test func(t *testing.T, w *world, start func(kind func(int) work))) {
	t.Helper()
	for _, seed := range seeds {
		for _, clients := range []int{1, 40, 0} {
			t.Run(fmt.Sprintf("seed %d, %d clients", seed, clients), func(t *testing.T) {
				w := newWorld(seed, servers)
				w.books(1, 0)
				test(t, w, func(kind func(int) work) {
					if clients > 0 {
						w.closed(clients, kind)
					} else {
						w.openLoop(float64(servers)*16/usual.Seconds()/2, kind)
					}
				})
			})
		}
	}
}

func (w *world) penalties() (n int) {
	for _, c := range w.changes {
		if c.Condition == choose.Penalized {
			n++
		}
	}
	return n
}

func TestH35_AServerThatFailsFastGetsNothing(t *testing.T) {
	for _, status := range []int{500, 503, 404} {
		for _, part := range []float64{1, 0.5} {
			loads(t, 4, func(t *testing.T, w *world, start func(func(int) work)) {
				start(plain)
				w.run(5 * time.Second)
				w.servers[1].fault = fails(status, time.Millisecond, part)
				w.run(2 * time.Second)
				w.measure()
				w.run(10 * time.Second)
				goal := 0.03
				if part < 1 {
					goal = 0.05
				}
				if s := w.share(1); s > goal {
					t.Errorf("a server that answers %.0f %% with %d gets %.2f %%; want at most %.0f", part*100, status, s*100, goal*100)
				}
			})
		}
	}
}

func TestH35_AServerThatFailsFromTheStart(t *testing.T) {
	loads(t, 4, func(t *testing.T, w *world, start func(func(int) work)) {
		w.servers[1].fault = fails(500, time.Millisecond, 1)
		start(plain)
		w.run(2 * time.Second)
		w.measure()
		w.run(10 * time.Second)
		if s := w.share(1); s > 0.03 {
			t.Errorf("it gets %.2f %%; want at most 3", s*100)
		}
	})
}

func TestH35_ASlowServerGetsLittle(t *testing.T) {
	loads(t, 4, func(t *testing.T, w *world, start func(func(int) work)) {
		start(plain)
		w.run(5 * time.Second)
		w.servers[1].speed = 0.1
		w.run(2 * time.Second)
		w.measure()
		w.run(20 * time.Second)
		if s := w.share(1); s > 0.008 {
			t.Errorf("a server ten times slower gets %.2f %%; want at most 0.8", s*100)
		}
		if p := w.quantile(.99); p > usual*13/10 {
			t.Errorf("p99 = %v; want at most 1.3 of %v", p, usual)
		}
	})
}

func TestH35_AServerThatHangsGetsLittle(t *testing.T) {
	loads(t, 4, func(t *testing.T, w *world, start func(func(int) work)) {
		start(plain)
		w.run(5 * time.Second)
		w.servers[1].fault = fails(0, 30*time.Second, 1) // until the timeout
		w.run(2 * time.Second)
		w.measure()
		w.run(10 * time.Second)
		if s := w.share(1); s > 0.01 {
			t.Errorf("a server that hangs gets %.2f %% after 2 s; want at most 1", s*100)
		}
		w.run(50 * time.Second)
		w.measure()
		w.run(30 * time.Second)
		if s := w.share(1); s > 0.01 {
			t.Errorf("a server that hangs gets %.2f %% after 60 s; want at most 1", s*100)
		}
	})
}

func TestH35_WhatFailsEverywherePenalizesNone(t *testing.T) {
	const hot = 7
	all := func(f func(*world, work) (int, time.Duration, bool)) func(*world) {
		return func(w *world) {
			for _, s := range w.servers {
				s.fault = f
			}
		}
	}
	for _, row := range []struct {
		name string
		kind func(*world) func(int) work
		set  func(*world)
	}{
		{"all fail", func(*world) func(int) work { return plain }, all(fails(503, time.Millisecond, 1))},
		{"all fail half of the time", func(*world) func(int) work { return plain }, all(fails(503, time.Millisecond, .5))},
		{"one URL fails", func(w *world) func(int) work {
			return func(c int) work { return work{client: c, url: w.random.IntN(20)} }
		}, all(func(_ *world, r work) (int, time.Duration, bool) { return 500, time.Millisecond, r.url == hot })},
		{"one client of 20 fails", func(*world) func(int) work {
			return func(c int) work { return work{client: c % 20} }
		}, all(func(_ *world, r work) (int, time.Duration, bool) { return 401, time.Millisecond, r.client == hot })},
		{"one client gets 429", func(*world) func(int) work {
			return func(c int) work { return work{client: c % 20} }
		}, all(func(_ *world, r work) (int, time.Duration, bool) { return 429, time.Millisecond, r.client == hot })},
		{"one URL is slow", func(w *world) func(int) work {
			return func(c int) work { return work{client: c, url: w.random.IntN(1000)} }
		}, all(func(_ *world, r work) (int, time.Duration, bool) { return 200, 100 * usual, r.url == hot })},
	} {
		t.Run(row.name, func(t *testing.T) {
			loads(t, 4, func(t *testing.T, w *world, start func(func(int) work)) {
				start(row.kind(w))
				w.run(5 * time.Second)
				row.set(w)
				for range 3 {
					w.measure()
					w.run(5 * time.Second)
					for i := range w.servers {
						if s := w.share(i); w.calls > 1000 && (s < .2 || s > .3) {
							t.Errorf("server %d gets %.1f %%; want 20 to 30", i, s*100)
						}
					}
				}
				if n := w.penalties(); n > 0 {
					t.Errorf("%d penalties, %+v; want none", n, w.changes)
				}
			})
		})
	}
}

func TestH35_ThreeOfFourFail(t *testing.T) {
	for _, seed := range seeds {
		w := newWorld(seed, 4)
		w.books(1, 0)
		w.openLoop(.8*64/usual.Seconds(), plain)
		w.run(5 * time.Second)
		for _, s := range w.servers[1:] {
			s.fault = fails(503, time.Millisecond, 1)
		}
		w.run(2 * time.Second)
		w.measure()
		w.run(20 * time.Second)
		used := w.servers[0].work.Seconds() / (20 * 16)
		if used < .95 || w.servers[0].peak > 26 {
			t.Errorf("seed %d: the healthy server is used to %.2f of its capacity, with %d calls in flight; want 0.95 and at most 26: %v %+v", seed, used, w.servers[0].peak, w.servers[0].peaked-w.from, len(w.changes))
		}
	}
}

func TestH35_TwoOfThreeFail(t *testing.T) {
	for _, seed := range seeds {
		w := newWorld(seed, 3)
		w.books(1, 0)
		w.openLoop(.3*48/usual.Seconds(), plain)
		w.run(5 * time.Second)
		for _, s := range w.servers[1:] {
			s.fault = fails(503, time.Millisecond, 1)
		}
		w.run(2 * time.Second)
		w.measure()
		w.run(20 * time.Second)
		if f := float64(w.bad) / float64(w.calls); f > .03 {
			t.Errorf("seed %d: %.1f %% failed; want at most 3", seed, f*100)
		}
	}
}

// The trials are few: 5 s, then twice as long after each.
func TestH35_FewCallsAtALowRate(t *testing.T) {
	for _, servers := range []int{2, 4} {
		for _, seed := range seeds {
			w := newWorld(seed, servers)
			w.books(1, 0)
			w.openLoop(2, plain)
			w.run(5 * time.Second)
			w.servers[1].fault = fails(500, time.Millisecond, 1)
			w.measure()
			for range 600 {
				w.run(100 * time.Millisecond)
				if w.penalties() > 0 {
					break
				}
			}
			if w.bad > 10 || w.penalties() == 0 {
				t.Errorf("%d servers, seed %d: %d failures to the penalty, %d penalties; want at most 10 and one", servers, seed, w.bad, w.penalties())
			}
			w.measure()
			w.run(10 * time.Minute)
			if w.bad > 9 {
				t.Errorf("%d servers, seed %d: %d failures in ten minutes; want at most 9", servers, seed, w.bad)
			}
		}
	}
}

func TestH38_WeightsOrderTheChoice(t *testing.T) {
	for _, heavy := range []int{1, 3, 9, 99} {
		for _, pairs := range []int{1, 2, 10} {
			for _, load := range []float64{.02, .5, .9} {
				for _, exponential := range []bool{false, true} {
					w := newWorld(uint64(heavy+pairs), 2*pairs)
					var weights []int
					places := 0
					for i, s := range w.servers {
						weights = append(weights, 1)
						if i%2 == 1 {
							weights[i], s.places = heavy, 16*heavy
						}
						if exponential {
							s.service = func(w *world) time.Duration { return time.Duration(w.random.ExpFloat64() * float64(usual)) }
						}
						places += s.places
					}
					w.books(1, 0, weights...)
					rate := load * float64(places) / usual.Seconds()
					w.openLoop(rate, plain)
					w.run(time.Duration(20_000 / rate * float64(time.Second)))
					w.measure()
					w.run(time.Duration(20_000 / rate * float64(time.Second)))
					light := 0.
					for i := 0; i < len(w.servers); i += 2 {
						light += w.share(i)
					}
					want := 1 / float64(1+heavy)
					sigma := 3 * math.Sqrt(want*(1-want)/20_000)
					if d := light - want; max(d, -d) > max(want/10, sigma) {
						t.Errorf("1:%d, %d servers at %.2f, exponential %v: the light ones get %.4f; want %.4f", heavy, 2*pairs, load, exponential, light, want)
					}
				}
			}
		}
	}
}

// The weights are wrong here: both servers are equal.
func TestH38_AHeavyServerIsNotOverloaded(t *testing.T) {
	for _, seed := range seeds {
		w := newWorld(seed, 2)
		w.books(1, 0, 1, 9)
		w.openLoop(.8*32/usual.Seconds(), plain)
		w.run(3 * time.Second)
		w.measure()
		w.run(20 * time.Second)
		used := w.servers[1].work.Seconds() / (20 * 16)
		if used > .95 {
			t.Errorf("seed %d: the heavy server is %.3f busy; want below 0.95 (p99 %v)", seed, used, w.quantile(.99))
		}
	}
}

func TestH36_AColdServerJoins(t *testing.T) {
	for _, seed := range seeds {
		w := newWorld(seed, 5)
		w.servers = w.servers[:4]
		w.books(1, 10*time.Second)
		w.openLoop(2000*.9, plain)
		w.run(10 * time.Second)
		w.measure()
		w.run(10 * time.Second)
		before := w.quantile(.99)
		cold := &server{places: 16, speed: .1}
		w.servers = append(w.servers, cold)
		w.gates[0].(*book).set(10*time.Second, 5)
		w.measure()
		w.after(5*time.Second, func() { cold.speed = 1 })
		w.run(20 * time.Second)
		if p := w.quantile(.99); p > before*3/2 {
			t.Errorf("seed %d: p99 = %v during the join, %v before; want at most 1.5 of it", seed, p, before)
		}
		w.run(10 * time.Second)
		w.measure()
		w.run(10 * time.Second)
		if s := w.share(4); s < .15 || s > .25 {
			t.Errorf("seed %d: it gets %.1f %% at the end; want about 20", seed, s*100)
		}
	}
}

// A rolling release replaces three of four: the fourth does not get more than 1.5 of its share.
func TestH36_AReleaseDoesNotBuryTheRest(t *testing.T) {
	w := newWorld(1, 4)
	w.books(1, 0)
	w.openLoop(1000, plain)
	w.run(5 * time.Second)
	k := w.gates[0].(*book)
	k.servers = k.servers[:1]
	k.set(10*time.Second, 4)
	w.measure()
	w.run(3 * time.Second)
	if s := w.share(0); s < .27 || s > .25*1.5*1.1 {
		t.Errorf("the server that stays gets %.1f %%; want more than 25 and at most about 37.5", s*100)
	}
}

func TestH36_AWholePoolThatIsNewNeedsNone(t *testing.T) {
	w := newWorld(1, 4)
	w.books(1, 10*time.Second)
	w.openLoop(1000, plain)
	w.run(time.Second)
	for i := range w.servers {
		if s := w.share(i); s < .2 || s > .3 {
			t.Errorf("server %d gets %.1f %%; want about 25", i, s*100)
		}
	}
}

func TestH35_AServerComesBack(t *testing.T) {
	for _, seed := range seeds {
		w := newWorld(seed, 4)
		w.books(1, 5*time.Second)
		w.closed(40, plain)
		w.run(5 * time.Second)
		w.servers[1].fault = fails(503, time.Millisecond, 1)
		w.run(4 * time.Second)
		w.servers[1].fault = nil
		w.run(20 * time.Second)
		w.measure()
		w.run(5 * time.Second)
		if s := w.share(1); s < .2 || s > .3 {
			t.Errorf("seed %d: a recovered server gets %.1f %%; want its share; %+v", seed, s*100, w.changes)
		}
	}
}

// The heavier server gives up few calls for being crowded. That it is silent must be enough.
func TestH38_AHeavyServerThatHangsGetsLittle(t *testing.T) {
	for _, seed := range seeds {
		w := newWorld(seed, 3)
		w.books(1, 0, 9, 1, 1)
		w.openLoop(400, plain)
		w.run(5 * time.Second)
		w.servers[0].fault = fails(0, 30*time.Second, 1)
		w.run(2 * time.Second)
		w.measure()
		w.run(20 * time.Second)
		if s := w.share(0); s > 0.01 {
			t.Errorf("seed %d: it gets %.2f %%; want at most 1", seed, s*100)
		}
	}
}
