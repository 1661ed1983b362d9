package choose_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/gateway/internal/upstream/choose"
	"github.com/weir-go/weir/gateway/internal/upstream/hedge"
)

// hedgingResults is the committed table.
const hedgingResults = "../../../../bench/results/2026-11-29-hedging.txt"

// A hedger is a gateway that hedges, with a limit on its calls.
type hedger struct {
	*book
	state  *hedge.State
	rule   hedge.Rule
	flat   bool // all keys are one class
	always bool // each call gets a hedge after rule.After, whatever the budget
	limit  int  // of calls in flight

	key  func(n int) uint64           // of the nth request
	took func(key uint64) (d float64) // of one call, as a multiple of the usual
	long func(key uint64) bool        // keys that always take long; their times are not measured

	inUse, waiting, requests int
	firsts, hedges           int
	work, extra              time.Duration // of the servers, for first calls and for hedges
	requestsTook             []time.Duration
}

func newHedger(w *world, rule hedge.Rule) *hedger {
	w.books(1, 0)
	h := &hedger{book: w.gates[0].(*book), state: new(hedge.State), rule: rule, limit: 200}
	h.key = func(int) uint64 { return 1 + w.random.Uint64N(1000) }
	h.took = func(uint64) float64 { return 1 }
	return h
}

// A race is a request with its calls.
type race struct {
	key   uint64
	came  time.Duration
	call  hedge.Call
	over  bool
	ended time.Duration
	tried int
}

// request sends the next request, or lets it wait for a permit.
func (h *hedger) request() {
	h.requests++
	h.admit(&race{key: h.key(h.requests), came: h.w.now}, false)
}

func (h *hedger) admit(r *race, waited bool) {
	if h.inUse >= h.limit || h.waiting > 0 && !waited {
		if !waited {
			h.waiting++
		}
		h.w.after(time.Millisecond, func() { h.admit(r, true) })
		return
	}
	if waited {
		h.waiting--
	}
	h.inUse++
	h.firsts++
	key := r.key * 0x9e3779b97f4a7c15
	if h.flat {
		key = 1
	}
	call, after, ok := h.state.Begin(choose.Instant(h.w.now), h.rule, key, 1)
	r.call = call
	r.tried = h.send(r, nil, false, &h.work, func() {
		h.inUse--
		if r.over {
			h.state.Worked(h.rule, &r.call, h.w.now-r.ended)
			return
		}
		h.state.End(choose.Instant(h.w.now), h.rule, &r.call, hedge.Headed)
		h.answered(r)
	})
	if h.rule.Budget > 0 && ok {
		h.w.after(after, func() { h.hedge(r) })
	}
}

// send makes one call. Its server works on it to the end, also if it is given up.
func (h *hedger) send(r *race, tried []int, spare bool, spent *time.Duration, done func()) int {
	q := choose.Request{Route: choose.Route{Name: "main"}, Repeatable: true, Spare: spare}
	for _, i := range tried {
		q.Tried = append(q.Tried, h.servers[i])
	}
	c, _ := h.b.Pick(choose.Instant(h.w.now), q)
	if c == nil {
		return -1
	}
	i := slices.Index(h.servers, c.Server)
	length := h.took(r.key)
	*spent += time.Duration(float64(usual) * length / h.w.servers[i].speed)
	h.w.serve(h.w.servers[i], work{length: length}, func(int) {
		at := choose.Instant(h.w.now)
		c.Head(at, true, false)
		c.Judge(at, choose.Good, 0)
		c.End(at)
		done()
	})
	return i
}

func (h *hedger) hedge(r *race) {
	if r.over {
		return
	}
	w := h.w
	if h.always {
		h.hedges++
		h.inUse++
		h.send(r, []int{r.tried}, false, &h.extra, func() {
			h.inUse--
			if !r.over {
				h.answered(r)
			}
		})
		return
	}
	if h.state.Hedge(choose.Instant(w.now), &r.call) != hedge.Sent {
		return
	}
	if h.waiting > 0 || h.inUse >= h.limit*9/10 {
		h.state.Withdraw(&r.call, hedge.Busy, false)
		return
	}
	sent := h.send(r, []int{r.tried}, true, &h.extra, func() {
		h.inUse--
		won := !r.over
		h.state.Ended(choose.Instant(w.now), &r.call, won, false)
		if won {
			h.state.End(choose.Instant(w.now), h.rule, &r.call, hedge.GaveUp)
			h.answered(r)
		}
	})
	if sent < 0 {
		h.state.Withdraw(&r.call, hedge.Servers, false)
		return
	}
	h.hedges++
	h.inUse++
}

func (h *hedger) answered(r *race) {
	r.over, r.ended = true, h.w.now
	if h.long != nil && h.long(r.key) {
		return
	}
	h.requestsTook = append(h.requestsTook, h.w.now-r.came)
}

// load sends rate requests in the second, at random instants.
func (h *hedger) load(rate float64) {
	var next func()
	next = func() {
		h.request()
		h.w.after(time.Duration(h.w.random.ExpFloat64()/rate*float64(time.Second)), next)
	}
	h.w.after(0, next)
}

func (h *hedger) quantile(q float64) time.Duration {
	slices.Sort(h.requestsTook)
	return h.requestsTook[min(int(math.Ceil(q*float64(len(h.requestsTook)))), len(h.requestsTook)-1)]
}

// more returns by which part the hedges add to the calls and to the time of the servers.
func (h *hedger) more() (calls, work float64) {
	return float64(h.hedges) / float64(h.firsts), h.extra.Seconds() / h.work.Seconds()
}

// body is how long a call usually takes: with some spread.
func (h *hedger) body() float64 { return math.Exp(.2 * h.w.random.NormFloat64()) }

const (
	chance   = .01 // of a call that takes 100 times as long
	longKeys = 20  // of 1,000, that always do
)

// What the servers do.
var hedging = []struct {
	name  string
	load  float64 // of the places
	mean  float64 // of the calls
	helps bool    // hedging does
	set   func(h *hedger)
}{
	{"1 % of the calls, at random, take 100 times as long", .3, 2, true, func(h *hedger) {
		h.took = func(uint64) float64 {
			if h.w.random.Float64() < chance {
				return 100 * h.body()
			}
			return h.body()
		}
	}},
	{"2 % of the keys always do", .3, 3, false, func(h *hedger) {
		h.took = func(key uint64) float64 {
			if key <= longKeys {
				return 100 * h.body()
			}
			return h.body()
		}
	}},
	{"both; times of the other keys", .4, 4, true, func(h *hedger) {
		h.long = func(key uint64) bool { return key <= longKeys }
		h.took = func(key uint64) float64 {
			if key <= longKeys || h.w.random.Float64() < chance {
				return 100 * h.body()
			}
			return h.body()
		}
	}},
	{"each key comes once, 2 % of them take 100 times as long", .3, 3, false, func(h *hedger) {
		h.key = func(n int) uint64 { return uint64(n) }
		h.took = func(key uint64) float64 {
			if key%50 == 0 {
				return 100 * h.body()
			}
			return h.body()
		}
	}},
	{"a brown-out: all servers are ten times slower for 10 s of each 20 s", .08, 1, false, func(h *hedger) {
		h.took = func(uint64) float64 { return h.body() }
		var slower, faster func()
		slower = func() { h.speed(.1); h.w.after(10*time.Second, faster) }
		faster = func() { h.speed(1); h.w.after(10*time.Second, slower) }
		h.w.after(10*time.Second, slower)
	}},
}

func (h *hedger) speed(x float64) {
	for _, s := range h.w.servers {
		s.speed = x
	}
}

// How a gateway hedges.
var hedgers = []struct {
	name string
	rule hedge.Rule
	set  func(h *hedger)
}{
	{"none", hedge.Rule{}, func(*hedger) {}},
	{"weir", hedge.Rule{Budget: 2}, func(*hedger) {}},
	{"one class", hedge.Rule{Budget: 2}, func(h *hedger) { h.flat = true }},
	{"p95 of fast ones", hedge.Rule{Budget: 2, After: 28 * time.Millisecond}, func(h *hedger) { h.always = true }},
}

func hedged(seed uint64, scene, how int) *hedger {
	w := newWorld(seed, 8)
	h := newHedger(w, hedgers[how].rule)
	hedgers[how].set(h)
	s := hedging[scene]
	s.set(h)
	h.load(s.load * float64(len(w.servers)) * 16 / (usual.Seconds() * s.mean))
	w.run(15 * time.Second)
	h.requestsTook = nil
	w.run(45 * time.Second)
	return h
}

// The table that decision 0149 refers to. A change of the rules changes it, and writes it again
// with -table.
func TestH41_Simulated(t *testing.T) {
	var b strings.Builder
	fmt.Fprintf(&b, "Hedging, simulated (%s): 8 servers of 20 ms with 16 places, 1,000 keys, 1 min, of\nwhich the last 45 s are measured. The servers work on calls that were given up.\n", runtime.Version())
	fmt.Fprintf(&b, "go test ./gateway/internal/upstream/choose -run TestH41_Simulated -table\n\n")
	fmt.Fprintf(&b, "%-34s", "")
	for _, how := range hedgers {
		fmt.Fprintf(&b, "%18s", how.name)
	}
	fmt.Fprintln(&b)
	for scene, s := range hedging {
		fmt.Fprintln(&b, s.name+":")
		for _, seed := range seeds {
			var rows [4]string
			var none time.Duration
			for how := range hedgers {
				if how > 1 && seed > 1 {
					continue // the rules that were rejected need no proof
				}
				h := hedged(seed, scene, how)
				calls, work := h.more()
				rows[0] += fmt.Sprintf("%18v", h.quantile(.99).Round(time.Millisecond))
				rows[1] += fmt.Sprintf("%18v", h.quantile(.999).Round(time.Millisecond))
				rows[2] += fmt.Sprintf("%16.2f %%", calls*100)
				rows[3] += fmt.Sprintf("%16.2f %%", work*100)
				if how == 1 && (calls > .02 || work > .02) {
					t.Errorf("%s, seed %d: %.2f %% more calls, %.2f %% more time; want at most 2", s.name, seed, calls*100, work*100)
				}
				switch p := h.quantile(.999); {
				case how == 0:
					none = p
				case how == 1 && s.helps && p > none/5:
					t.Errorf("%s, seed %d: p99.9 = %v; want at most a fifth of %v", s.name, seed, p, none)
				}
			}
			for i, title := range []string{"p99", "p99.9", "more calls", "more time of the servers"} {
				fmt.Fprintf(&b, "%-32s %d%s\n", title, seed, rows[i])
			}
		}
	}
	if *write {
		if err := os.WriteFile(hedgingResults, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(hedgingResults)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("the results are in the repository, and not in the module's zip")
	}
	if err != nil {
		t.Fatal(err)
	}
	_, was, _ := strings.Cut(string(want), "\n") // the first line has the version of Go
	if _, is, _ := strings.Cut(b.String(), "\n"); is != was && runtime.GOARCH == "amd64" {
		t.Errorf("the table differs from %s; it is now\n%s", hedgingResults, is)
	}
}
