package choose_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/gateway/internal/upstream/choose"
)

// zipf returns keys of which the nth is drawn in proportion to n^-1.1.
func zipf(random *rand.Rand, keys int) func(int) work {
	sums := make([]float64, keys)
	sum := 0.
	for i := range sums {
		sum += math.Pow(float64(i+1), -1.1)
		sums[i] = sum
	}
	return func(client int) work {
		x := random.Float64() * sum
		low, high := 0, keys-1
		for low < high {
			if m := (low + high) / 2; sums[m] < x {
				low = m + 1
			} else {
				high = m
			}
		}
		return work{client: client, url: low}
	}
}

func byURL(r work) uint64    { return choose.Mix(uint64(r.url), 1) }
func byClient(r work) uint64 { return choose.Mix(uint64(r.client), 2) }

// keep makes the only gateway of w keep keys at their servers.
func (w *world) keep(key func(work) uint64, bound float64) *book {
	k := w.gates[0].(*book)
	k.key, k.bound = key, bound
	return k
}

// homes returns where the keys are without load.
func (k *book) homes(keys int) []*choose.Server {
	out := make([]*choose.Server, keys)
	for i := range out {
		c, _ := k.b.Pick(choose.Instant(k.w.now), choose.Request{Key: k.key(work{url: i})})
		out[i] = c.Server
		c.End(choose.Instant(k.w.now))
	}
	return out
}

// differ returns the share of the keys whose server is another one.
func differ(a, b []*choose.Server) float64 {
	n := 0
	for i := range a {
		if a[i] != b[i] {
			n++
		}
	}
	return float64(n) / float64(len(a))
}

func TestH39_TheBoundIsNeverPassed(t *testing.T) {
	const keys = 10_000
	for _, seed := range seeds {
		w := newWorld(seed, 9)
		w.servers = w.servers[:8]
		for _, s := range w.servers {
			s.places = 1000
		}
		w.books(1, 10*time.Second)
		k := w.keep(byURL, 1.25)
		before := k.homes(keys)
		passed := ""
		w.gates[0] = checked{k, func(i int) {
			total := 0
			for _, s := range w.servers {
				total += s.flying
			}
			most := max(8, int(math.Ceil(1.25*float64(total+1)/float64(len(w.servers)))))
			if n := w.servers[i].flying + 1; n > most && passed == "" {
				passed = fmt.Sprintf("%d calls of %d at a server; want at most %d", n, total+1, most)
			}
		}}
		w.openLoop(8*16/usual.Seconds(), zipf(w.random, keys))
		w.run(5 * time.Second)
		w.servers = append(w.servers, &server{places: 1000, speed: 1})
		k.set(10*time.Second, 9)
		w.run(15 * time.Second)
		if passed != "" {
			t.Errorf("seed %d: %s", seed, passed)
		}
		if d := differ(before, k.homes(keys)); d == 0 || d > 1./8+.02 {
			t.Errorf("seed %d: %.3f of the keys have moved; want at most 0.145", seed, d)
		}
		for i := range w.servers {
			if s := w.share(i); s < .03 || s > 1.25/8 {
				t.Errorf("seed %d: server %d has %.3f of the calls", seed, i, s)
			}
		}
	}
}

// A checked book shows each choice.
type checked struct {
	*book
	see func(server int)
}

func (c checked) pick(w *world, r work, tried []int) (int, func(int)) {
	i, done := c.book.pick(w, r, tried)
	if i >= 0 {
		c.see(i)
	}
	return i, done
}

func TestH39_FewCallsNeverLeaveTheirServer(t *testing.T) {
	for _, seed := range seeds {
		w := newWorld(seed, 8)
		w.books(1, 0)
		k := w.keep(byURL, 1.25)
		w.openLoop(1.9/usual.Seconds(), zipf(w.random, 10_000))
		w.run(1000 * time.Second)
		if w.calls < 90_000 || k.moved > 0 {
			t.Errorf("seed %d: %d of %d calls have left their server; want none", seed, k.moved, w.calls)
		}
	}
}

func TestH39_WithoutABoundAKeyHasOneServer(t *testing.T) {
	w := newWorld(1, 4)
	w.books(1, 0)
	k := w.keep(byURL, choose.NoBound)
	w.closed(60, func(c int) work { return work{client: c} })
	w.run(5 * time.Second)
	if k.moved > 0 {
		t.Errorf("%d calls have left the server of the only key; want none", k.moved)
	}
}

func TestH39_KeysFollowTheWeights(t *testing.T) {
	const keys = 20_000
	w := newWorld(1, 3)
	w.books(1, 0, 1, 1, 2)
	k := w.keep(byURL, 1.25)
	share := func(homes []*choose.Server, s *choose.Server) float64 {
		n := 0
		for _, h := range homes {
			if h == s {
				n++
			}
		}
		return float64(n) / keys
	}
	before := k.homes(keys)
	if s := share(before, k.servers[2]); s < .48 || s > .52 {
		t.Errorf("the server of half of the weight has %.3f of the keys", s)
	}
	k.set(0, 3, 1, 1, 0)
	drained := k.homes(keys)
	for i, h := range drained {
		if before[i] != k.servers[2] && h != before[i] || h == k.servers[2] {
			t.Fatalf("key %d went from %d to %d; only the keys of the drained server move, to others", i, before[i].ID, h.ID)
		}
	}
	k.set(0, 3, 1, 1, 2)
	if d := differ(before, k.homes(keys)); d != 0 {
		t.Errorf("%.3f of the keys are elsewhere after the server's return", d)
	}
	// Another weight moves no more keys than its share changes by.
	k.set(0, 3, 1, 1, 3)
	if d := differ(before, k.homes(keys)); d < .08 || d > .12 {
		t.Errorf("%.3f of the keys moved when a half became three fifths", d)
	}
}

// A server with a limit has room for half of it.
func TestH39_ALimitSetsTheFloor(t *testing.T) {
	b := choose.New(nil, rand.New(rand.NewPCG(1, 1)).Uint64)
	servers := []*choose.Server{{ID: 1}, {ID: 2}, {ID: 3}, {ID: 4}}
	var members []choose.Member
	for _, s := range servers {
		members = append(members, choose.Member{Server: s, Weight: 1, Limit: 40})
	}
	b.Set(1, members, 0)
	var first *choose.Server
	for n := range 30 {
		c, _ := b.Pick(1, choose.Request{Key: 99, Bound: 1.25})
		if n == 0 {
			first = c.Server
		}
		if c.Moved != (n >= 20) || c.Moved == (c.Server == first) {
			t.Fatalf("call %d went to server %d, moved %v; want 20 calls at server %d", n+1, c.Server.ID, c.Moved, first.ID)
		}
	}
}

func TestH39_AServerThatFailsIsPenalized(t *testing.T) {
	for _, row := range []struct {
		name string
		key  func(work) uint64
		kind func(int) work
	}{
		{"POST, by client", byClient, func(c int) work { return work{client: c, post: true} }},
		{"retried, by client", byClient, func(c int) work { return work{client: c, left: 1} }},
		{"retried, one client, by URL", byURL, nil},
	} {
		for _, seed := range seeds {
			w := newWorld(seed, 4)
			w.books(1, 0)
			w.keep(row.key, 1.25)
			kind := row.kind
			if kind == nil {
				kind = func(int) work { return work{url: w.random.IntN(100), left: 1} }
			}
			w.openLoop(1000, kind)
			w.run(12 * time.Second)
			w.servers[1].fault = fails(500, time.Millisecond, 1)
			w.run(2 * time.Second)
			w.measure()
			w.run(10 * time.Second)
			if s := w.share(1); s > .03 || w.penalties() == 0 {
				t.Errorf("%s, seed %d: it gets %.1f %% with %d penalties; want at most 3", row.name, seed, s*100, w.penalties())
			}
			for _, c := range w.changes {
				if i := w.gates[0].(*book).servers[1]; c.Server != i {
					t.Errorf("%s, seed %d: server %d was %v as well", row.name, seed, c.Server.ID, c.Condition)
				}
			}
			w.servers[1].fault = nil
			w.run(5 * time.Minute)
			w.measure()
			w.run(5 * time.Second)
			if s := w.share(1); s < .1 {
				t.Errorf("%s, seed %d: it gets %.1f %% after its return; want its keys back", row.name, seed, s*100)
			}
		}
	}
}

// A key, or the keys of a client, that fail everywhere are 10 % of the traffic.
func TestH39_AFailingKeyPenalizesNone(t *testing.T) {
	bad := func(w *world) bool { return w.random.IntN(10) == 0 }
	for _, left := range []int{0, 1} {
		for _, status := range []int{500, 404} {
			for _, part := range []float64{1, .5} {
				for _, row := range []struct {
					name  string
					key   func(work) uint64
					kind  func(*world, int) work
					fault func(work) bool
				}{
					{"one URL", byURL, func(w *world, c int) work {
						if bad(w) {
							return work{client: c, url: 7}
						}
						return work{client: c, url: 10 + w.random.IntN(1000)}
					}, func(r work) bool { return r.url == 7 }},
					{"one client", byClient, func(w *world, c int) work {
						if bad(w) {
							return work{client: 7}
						}
						return work{client: 10 + w.random.IntN(1000)}
					}, func(r work) bool { return r.client == 7 }},
					{"1,000 URLs of one client", byURL, func(w *world, c int) work {
						if bad(w) {
							return work{client: 7, url: w.random.IntN(1000)}
						}
						return work{client: 10 + c, url: w.random.IntN(1000)}
					}, func(r work) bool { return r.client == 7 }},
				} {
					for _, seed := range seeds {
						w := newWorld(seed, 8)
						w.books(1, 0)
						k := w.keep(row.key, 1.25)
						w.openLoop(300, func(c int) work {
							r := row.kind(w, c)
							r.left = left
							return r
						})
						w.run(5 * time.Second)
						for _, s := range w.servers {
							s.fault = func(w *world, r work) (int, time.Duration, bool) {
								return status, time.Millisecond, row.fault(r) && (part >= 1 || w.random.Float64() < part)
							}
						}
						k.moved = 0
						w.run(30 * time.Second)
						if n := w.penalties(); n > 0 || left == 0 && k.moved > 0 {
							t.Errorf("%s, status %d, %v of its calls fail, %d retries, seed %d: %d penalties, %d calls moved; want none", row.name, status, part, left, seed, n, k.moved)
						}
					}
				}
			}
		}
	}
}

// A client whose session fails is seen by its server only, so that it proves nothing.
func TestH39_AFailingSessionPenalizesNone(t *testing.T) {
	b := choose.New(nil, rand.New(rand.NewPCG(1, 1)).Uint64)
	servers := []*choose.Server{{ID: 1}, {ID: 2}, {ID: 3}}
	var members []choose.Member
	for _, s := range servers {
		members = append(members, choose.Member{Server: s, Weight: 1})
	}
	now := choose.Instant(time.Hour)
	b.Set(now, members, 0)
	call := func(client uint64, prefer *choose.Server, class choose.Class) {
		now += choose.Instant(5 * time.Millisecond)
		c, _ := b.Pick(now, choose.Request{Client: client, Prefer: prefer})
		if prefer != nil && c.Server != prefer {
			t.Fatalf("the call went to server %d; want %d", c.Server.ID, prefer.ID)
		}
		c.Head(now, class == choose.Good, false)
		c.Judge(now, class, 0)
		c.End(now)
	}
	for i := range 3000 {
		call(uint64(10+i%50), servers[i%3], choose.Good)
		call(7, servers[0], choose.Failure)
	}
	if st := b.State(servers[0]); st.Condition != choose.Working {
		t.Errorf("its server is %v; want working", st.Condition)
	}
	for range 3000 { // two sessions of one client, or of users behind one address
		call(8, servers[0], choose.Failure)
		call(8, servers[1], choose.Good)
		call(8, nil, choose.Good)
	}
	if st := b.State(servers[0]); st.Condition != choose.Working {
		t.Errorf("after two sessions of one client its server is %v; want working", st.Condition)
	}
	for i := range 3000 { // all sessions of the server
		call(uint64(10+i%50), nil, choose.Good)
		if b.State(servers[0]).Condition == choose.Penalized {
			return
		}
		call(uint64(10+i%50), servers[0], choose.Failure)
	}
	t.Errorf("a server whose sessions all fail is %v; want penalized", b.State(servers[0]).Condition)
}
