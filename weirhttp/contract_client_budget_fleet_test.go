package weirhttp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/fleet/fleettest"
	"github.com/weir-go/weir/fleet/quota"
	"github.com/weir-go/weir/weirhttp"
)

// A payingFleet is a set of instances whose clients each have one budget. They share
// nothing else, unless the responses are shared, too.
type payingFleet struct {
	sites   []*site
	budgets []*weirhttp.ClientBudget
	lines   []*fleettest.Faults
	engine  *fleet.Memory
}

// openPaying opens n instances. Clients have 100 units, which come back at 1 per second.
func openPaying(t *testing.T, n int, o weirhttp.ClientBudgetOptions, set func(*weirhttp.Options, fleet.Tier), origin http.HandlerFunc) *payingFleet {
	t.Helper()
	f := &payingFleet{engine: fleet.NewMemory(fleet.MemoryOptions{})}
	for range n {
		line := fleettest.NewFaults(f.engine)
		b := clientBudget(t, onLedger(o, line))
		ho := weirhttp.Options{ClientBudget: b, Cost: completions}
		if set != nil {
			set(&ho, line)
		}
		s := open(t, h1, ho, origin)
		t.Cleanup(func() {
			ctx := context.WithoutCancel(t.Context())
			if err := errors.Join(s.handler.Close(ctx), b.Close(ctx)); err != nil {
				t.Errorf("Close = %v", err)
			}
		})
		f.sites, f.budgets, f.lines = append(f.sites, s), append(f.budgets, b), append(f.lines, line)
	}
	return f
}

// onLedger returns o with a Fleet that counts in l.
func onLedger(o weirhttp.ClientBudgetOptions, l fleet.Ledger) weirhttp.ClientBudgetOptions {
	o.Fleet.Ledger = l
	if o.Fleet.OnFailure == 0 {
		o.Fleet.OnFailure = quota.FailClosed
	}
	return o
}

func (r reply) wantRefused(t *testing.T, status int, retry string) {
	t.Helper()
	if r.status != status || r.header.Get("Retry-After") != retry {
		t.Errorf("got %d %q, Retry-After %q; want %d and %q", r.status, r.body, r.header.Get("Retry-After"), status, retry)
	}
}

// A client has one budget for all instances: estimated before the call, and settled from
// the response. No other client uses it up. A refusal has the time until there are enough
// units in the fleet.
func TestH34_AClientHasOneBudgetForAFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := openPaying(t, 2, weirhttp.ClientBudgetOptions{}, nil, answering(0, "Content-Type", "application/json", "X-Cost", "30"))
		f.sites[0].promptAs("ada", `{"max_tokens":95}`).want(t, 200, "/") // 70 are left
		synctest.Wait()
		f.sites[1].promptAs("ada", `{"max_tokens":60}`).want(t, 200, "/") // 40 are left
		synctest.Wait()
		f.sites[0].promptAs("ada", `{"max_tokens":60}`).wantRefused(t, 429, "20")
		f.sites[1].promptAs("ada", `{"max_tokens":60}`).wantRefused(t, 429, "20")
		f.sites[1].promptAs("bob", `{"max_tokens":99}`).want(t, 200, "/")
		f.sites[1].promptAs("ada", `{"max_tokens":101}`).wantRefused(t, 413, "")
		time.Sleep(20 * time.Second)
		f.sites[1].promptAs("ada", `{"max_tokens":60}`).want(t, 200, "/")
		synctest.Wait()
		want := weirhttp.ClientBudgetStats{Clients: 2, Refused: 2, Returned: 30 + 69 + 30, Fleet: true}
		if got := f.budgets[1].Stats(); got != want {
			t.Errorf("Stats = %+v; want %+v", got, want)
		}
		if got := f.sites[0].handler.Stats(); got.RefusedClient != 1 || got.Cost.RefusedClient != 60 || got.Refused != 0 {
			t.Errorf("Stats = %+v; want one refused client with 60 units", got)
		}
	})
}

// A client owes the whole fleet the units that an estimate lacked, up to MaxDebt.
func TestH34_AClientOwesTheWholeFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := openPaying(t, 2, weirhttp.ClientBudgetOptions{Units: 1, Per: time.Second, Burst: 100, MaxDebt: 30}, nil, answering(0, "X-Cost", "150"))
		f.sites[0].promptAs("ada", `{"max_tokens":10}`).want(t, 200, "/")
		synctest.Wait()
		f.sites[1].promptAs("ada", `{"max_tokens":10}`).wantRefused(t, 429, "40")
		if got := f.budgets[0].Stats(); got.Owed != 120 || got.Forgiven != 20 {
			t.Errorf("Stats = %+v; want 120 owed and 20 forgiven", got)
		}
	})
}

// Equal requests that arrive at once share one call. The client that starts it pays, once,
// and a client that has no units left gets the response of another's call.
func TestH34_OneClientOfManyPaysTheFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := openPaying(t, 1, weirhttp.ClientBudgetOptions{}, func(o *weirhttp.Options, _ fleet.Tier) {
			o.Cost = weirhttp.Cost{Units: 100}
		}, answering(time.Second, "Cache-Control", "public, max-age=60"))
		s := f.sites[0]
		for _, r := range s.together(200, s.same("/a", "X-User", "ada")) {
			r.want(t, 200, "/a")
		}
		s.wantCalls(1)
		s.get("/a", "X-User", "poor").want(t, 200, "/a")
		s.get("/free").want(t, 200, "/free") // has no key
		if got := f.budgets[0].Stats(); got.Refused != 0 {
			t.Errorf("Stats = %+v; want no refusal", got)
		}
		for _, r := range s.together(50, s.same("/b", "X-User", "ada")) {
			r.wantRefused(t, 429, "98")
		}
		s.wantCalls(2)
	})
}

// A client that cannot pay is refused alone. Those that have joined its call share another
// one, which one of them pays for.
func TestH34_AClientWithoutUnitsFailsForItselfOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := openPaying(t, 1, weirhttp.ClientBudgetOptions{}, func(o *weirhttp.Options, _ fleet.Tier) {
			o.Cost = weirhttp.Cost{Units: 100}
		}, answering(time.Second, "Cache-Control", "public, max-age=60"))
		s := f.sites[0]
		const poor = 5
		for i := range poor {
			s.get(fmt.Sprint("/", i), "X-User", fmt.Sprint("poor", i)).want(t, 200, fmt.Sprint("/", i))
		}
		f.lines[0].Before(func(op string) {
			if op == "spend" {
				time.Sleep(10 * time.Millisecond) // the others join meanwhile
			}
		})
		var wg sync.WaitGroup
		var mu sync.Mutex
		got := make(map[int]int)
		ask := func(user string) {
			wg.Go(func() {
				r := s.get("/a", "X-User", user)
				mu.Lock()
				defer mu.Unlock()
				got[r.status]++
			})
		}
		for i := range poor { // each of them leads before anybody who can pay
			ask(fmt.Sprint("poor", i))
			ask(fmt.Sprint("poor", i))
			if i == 0 {
				time.Sleep(time.Millisecond)
			}
		}
		time.Sleep(time.Millisecond)
		for i := range 100 {
			ask(fmt.Sprint("rich", i))
		}
		wg.Wait()
		if got[429] > 2*poor || got[429] < 2 || got[200]+got[429] != 100+2*poor {
			t.Errorf("got %v; want 200 for the 100 who can pay, and 429 or another's response for the others", got)
		}
		s.wantCalls(poor + 1)
	})
}

// A client over its budget gets the stored response if it may be served stale, and a call
// that is not made costs nothing.
func TestH34_AClientOfAFleetGetsWhatIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := openPaying(t, 2, weirhttp.ClientBudgetOptions{}, func(o *weirhttp.Options, _ fleet.Tier) {
			o.Cost = weirhttp.Cost{Units: 100}
		}, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/down" {
				weirhttp.SinkOf(w).Fail(&weirhttp.ForwardError{Err: context.DeadlineExceeded, Unreachable: true})
				return
			}
			w.Header().Set("Cache-Control", "public, max-age=1, stale-if-error=20")
			fmt.Fprint(w, r.URL.Path)
		})
		s := f.sites[0]
		if r := s.get("/down", "X-User", "ada"); r.status != 504 {
			t.Errorf("got %d; want 504", r.status)
		}
		if r := s.get("/down", "X-User", "ada", "If-None-Match", `"a"`); r.status != 504 {
			t.Errorf("got %d; want 504", r.status)
		}
		synctest.Wait()
		s.get("/a", "X-User", "ada").want(t, 200, "/a")
		time.Sleep(10 * time.Second)
		s.get("/a", "X-User", "ada").want(t, 200, "/a")
		s.wantCalls(3)
		time.Sleep(20 * time.Second)
		s.get("/a", "X-User", "ada").wantRefused(t, 429, "70")
		s.get("/a", "X-User", "ada", "Range", "bytes=0-1").wantRefused(t, 429, "70")
		f.sites[1].get("/a", "X-User", "ada").wantRefused(t, 429, "70")
	})
}

// A response of another instance costs the client nothing, and an instance whose client
// cannot pay lets another one make the call.
func TestH34_AResponseOfTheFleetCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := openPaying(t, 2, weirhttp.ClientBudgetOptions{}, func(o *weirhttp.Options, tier fleet.Tier) {
			o.Cost, o.Fleet = weirhttp.Cost{Units: 100}, weirhttp.FleetOptions{Config: fleet.Config{Tier: tier}}
		}, answering(time.Second, "Cache-Control", "public, max-age=60"))
		f.sites[0].get("/a", "X-User", "ada").want(t, 200, "/a")
		synctest.Wait()
		f.sites[1].get("/a", "X-User", "ada").want(t, 200, "/a") // from the Tier
		f.sites[1].get("/b", "X-User", "ada").wantRefused(t, 429, "99")
		f.sites[0].get("/b", "X-User", "bob").want(t, 200, "/b") // the lease is free, and the key not cooling
		if a, b := f.sites[0].calls.Load(), f.sites[1].calls.Load(); a != 2 || b != 0 {
			t.Errorf("%d and %d calls; want 2 and 0", a, b)
		}
	})
}

// Without the engine OnFailure decides.
func TestH34_ClientsWithoutTheEngine(t *testing.T) {
	for _, row := range []struct {
		mode   quota.FailureMode
		status int
		retry  string
	}{
		{quota.FailOpen, 200, ""}, {quota.FailClosed, 503, "1"}, {quota.FailLocalShare, 429, "20"},
	} {
		synctest.Test(t, func(t *testing.T) {
			o := weirhttp.ClientBudgetOptions{Fleet: weirhttp.ClientBudgetFleet{OnFailure: row.mode, Instances: 2}}
			f := openPaying(t, 2, o, nil, answering(0, "X-Cost", "10"))
			f.sites[0].promptAs("ada", `{"max_tokens":10}`).want(t, 200, "/")
			synctest.Wait()
			f.lines[0].Cut()
			post := f.sites[0].promptAs("ada", `{"max_tokens":10}`)
			get := f.sites[0].get("/x", "X-User", "ada")
			if post.status != row.status || post.header.Get("Retry-After") != row.retry || get.status != row.status {
				t.Errorf("%v: got %d with Retry-After %q, and %d for GET; want %d and %q", row.mode, post.status, post.header.Get("Retry-After"), get.status, row.status, row.retry)
			}
			if row.mode == quota.FailClosed && (!strings.Contains(get.body, "unreachable") || !strings.Contains(post.body, "unreachable")) {
				t.Errorf("got %q and %q; want that the limit is unreachable", get.body, post.body)
			}
			if got := f.budgets[0].Stats(); !got.Outage || f.budgets[1].Stats().Outage {
				t.Errorf("%v: Stats = %+v; want an outage", row.mode, got)
			}
			f.sites[1].promptAs("ada", `{"max_tokens":10}`).want(t, 200, "/")
			f.lines[0].Mend()
			time.Sleep(5 * time.Second)
			f.sites[0].promptAs("ada", `{"max_tokens":10}`).want(t, 200, "/")
		})
	}
}

// Made-up clients take a bounded number of names in the engine: those that do not fit count
// by address there as well. They neither use up nor refill another client's units.
func TestH34_MadeUpClientsAreBoundedInTheEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := &countingLedger{Memory: fleet.NewMemory(fleet.MemoryOptions{}), names: make(map[string]bool)}
		b, err := weirhttp.NewClientBudget(onLedger(weirhttp.ClientBudgetOptions{
			Units: 100, Per: time.Hour, Keys: 50, Key: weirhttp.ByHeader("X-User", weirhttp.ByAddress(nil)),
			Client: func(r *http.Request) netip.Addr { return netip.MustParseAddr(r.Header.Get("X-Address")) },
		}, engine))
		if err != nil {
			t.Fatal(err)
		}
		s := open(t, h1, weirhttp.Options{ClientBudget: b, Cost: weirhttp.Cost{Units: 60}}, answering(0))
		as := func(address, user string) int {
			return s.get("/"+url.PathEscape(user), "X-User", user, "X-Address", address).status
		}
		if got := as("192.0.2.1", "ada"); got != 200 {
			t.Errorf("ada got %d; want 200", got)
		}
		let := 0
		for i := range 500 {
			if as("198.51.100.66", fmt.Sprint("made up ", i)) == 200 {
				let++
			}
		}
		if let > 50 || len(engine.names) > 51 {
			t.Errorf("%d of 500 made-up clients of an address were admitted, and the engine has %d names; want at most 50, and 51", let, len(engine.names))
		}
		if got := as("192.0.2.1", "ada"); got != 429 {
			t.Errorf("ada got %d after a flood; want 429", got)
		}
		if got := as("203.0.113.5", "new"); got != 200 {
			t.Errorf("a new client from another address got %d; want 200", got)
		}
		for name := range engine.names {
			if strings.ContainsAny(name, " .:") || len(name) > 43 {
				t.Errorf("the engine gets %q; want a digest", name)
			}
		}
	})
}

// countingLedger records the names of buckets.
type countingLedger struct {
	*fleet.Memory
	names map[string]bool // one request at a time
}

func (l *countingLedger) Spend(ctx context.Context, k fleet.Key, r fleet.Rate, n int) (fleet.Spent, error) {
	l.names[k.Name] = true
	return l.Memory.Spend(ctx, k, r, n)
}

// Update keeps what clients have spent, and Close waits for what the fleet does not know.
func TestH34_UpdateAndCloseOfAFleetsClientBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := fleet.NewMemory(fleet.MemoryOptions{})
		line := fleettest.NewFaults(engine)
		o := onLedger(weirhttp.ClientBudgetOptions{Units: 100, Per: 100 * time.Second}, line)
		b := clientBudget(t, o)
		s := open(t, h1, weirhttp.Options{ClientBudget: b, Cost: completions}, answering(0, "X-Cost", "50"))
		s.promptAs("ada", `{"max_tokens":50}`).want(t, 200, "/")
		o.Units, o.Burst = 200, 200
		if err := b.Update(o); err != nil {
			t.Fatal(err)
		}
		s.promptAs("ada", `{"max_tokens":170}`).wantRefused(t, 429, "10")
		for field, bad := range map[string]func(*weirhttp.ClientBudgetOptions){
			"Name":            func(o *weirhttp.ClientBudgetOptions) { o.Name = "other" },
			"Fleet.Ledger":    func(o *weirhttp.ClientBudgetOptions) { o.Fleet.Ledger = nil },
			"Fleet.OnFailure": func(o *weirhttp.ClientBudgetOptions) { o.Fleet.OnFailure = 9 },
			"Fleet.Instances": func(o *weirhttp.ClientBudgetOptions) { o.Fleet.OnFailure = quota.FailLocalShare },
			"Fleet.Namespace": func(o *weirhttp.ClientBudgetOptions) { o.Fleet.Namespace = strings.Repeat("x", 5000) },
		} {
			o := o
			bad(&o)
			err := b.Update(o)
			var e *weirhttp.OptionError
			if !errors.As(err, &e) || e.Field != "ClientBudgetOptions."+field {
				t.Errorf("Update = %v; want a fault in %s", err, field)
			}
		}
		line.Before(func(op string) {
			if op == "correct" {
				time.Sleep(500 * time.Millisecond)
			}
		})
		s.promptAs("ada", `{"max_tokens":150}`).want(t, 200, "/")
		if err := b.Close(t.Context()); err != nil {
			t.Errorf("Close = %v", err)
		}
		if got := b.Stats(); got.Returned != 100 {
			t.Errorf("Stats = %+v after Close; want 100 returned", got)
		}
		if r := s.promptAs("ada", `{"max_tokens":1}`); r.status != 503 {
			t.Errorf("got %d after Close; want 503", r.status)
		}
	})
}
