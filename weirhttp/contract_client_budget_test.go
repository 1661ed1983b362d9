package weirhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirhttp"
)

// clientBudget returns a budget of 100 units for each X-User, which come back at 1 per
// second.
func clientBudget(t *testing.T, o weirhttp.ClientBudgetOptions) *weirhttp.ClientBudget {
	t.Helper()
	if o.Units == 0 {
		o.Units, o.Per, o.Burst = 1, time.Second, 100
	}
	o.Key = weirhttp.ByHeader("X-User", nil)
	b, err := weirhttp.NewClientBudget(o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// promptAs sends body to / for user.
func (s *site) promptAs(user, body string) reply {
	r := s.request(s.t.Context(), http.MethodPost, "/", "Content-Type", "application/json", "X-User", user)
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	return s.do(r)
}

// Each client has its own budget: estimated before the call, and settled from the
// response. A client without enough units gets 429 with the time until there are enough,
// and one that never can have them 413.
func TestH34_EachClientHasItsOwnBudget(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			b := clientBudget(t, weirhttp.ClientBudgetOptions{})
			total := budget(t)
			s := open(t, p, weirhttp.Options{ClientBudget: b, Budget: total, Cost: completions}, answering(0, "Content-Type", "application/json", "X-Cost", "20"))
			s.promptAs("ada", `{"max_tokens":95}`).want(t, 200, "/") // 80 are left
			if r := s.promptAs("ada", `{"max_tokens":90}`); r.status != 429 || r.header.Get("Retry-After") != "10" || !strings.Contains(r.body, "budget") {
				t.Errorf("got %d %q, Retry-After %q; want 429 and the 10 s until 90 units are there", r.status, r.body, r.header.Get("Retry-After"))
			}
			s.promptAs("bob", `{"max_tokens":80}`).want(t, 200, "/")
			if r := s.promptAs("ada", `{"max_tokens":101}`); r.status != 413 || r.header.Get("Retry-After") != "" {
				t.Errorf("got %d, Retry-After %q; want 413 for good", r.status, r.header.Get("Retry-After"))
			}
			time.Sleep(10 * time.Second)
			if r := s.promptAs("ada", `{"max_tokens":90}`); r.status != 503 {
				t.Errorf("got %d for a call that only the total budget refuses; want 503", r.status)
			}
			time.Sleep(20 * time.Second)
			s.promptAs("ada", `{"max_tokens":90}`).want(t, 200, "/") // the refusal by the total has cost ada nothing
			s.wantCalls(3)
			got := s.handler.Stats()
			if got.Cost != (weirhttp.CostStats{Spent: 60, Refused: 90, RefusedClient: 191}) || got.RefusedClient != 1 || got.Refused != 1 ||
				got.RefusedBy != (weirhttp.RefusedStats{Budget: 1, ClientBudget: 1, TooLarge: 1}) {
				t.Errorf("Stats = %+v; want 60 spent, 90 refused, and 191 refused to clients", got)
			}
			if got := b.Stats(); got != (weirhttp.ClientBudgetStats{Clients: 2, Refused: 2, Returned: 75 + 60 + 90 + 70}) {
				t.Errorf("Stats = %+v; want 2 refusals, and what was estimated too high returned", got)
			}
		})
	})
}

// Units that the estimate lacked are owed, up to MaxDebt.
func TestH34_ClientsOweWhatTheEstimateLacked(t *testing.T) {
	for _, row := range []struct {
		debt, cost     int
		owed, forgiven int
		wantRetryFor   string
	}{
		{debt: 0, cost: 150, owed: 140, wantRetryFor: "60"},
		{debt: 30, cost: 150, owed: 120, forgiven: 20, wantRetryFor: "40"},
		{debt: -1, cost: 150, owed: 90, forgiven: 50, wantRetryFor: "10"},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := clientBudget(t, weirhttp.ClientBudgetOptions{Units: 1, Per: time.Second, Burst: 100, MaxDebt: row.debt})
			s := open(t, h1, weirhttp.Options{ClientBudget: b, Cost: completions}, answering(0, "X-Cost", fmt.Sprint(row.cost)))
			s.promptAs("ada", `{"max_tokens":10}`).want(t, 200, "/")
			r := s.promptAs("ada", `{"max_tokens":10}`)
			if r.status != 429 || r.header.Get("Retry-After") != row.wantRetryFor {
				t.Errorf("MaxDebt %d: got %d, Retry-After %q; want 429 and %s", row.debt, r.status, r.header.Get("Retry-After"), row.wantRetryFor)
			}
			if got := b.Stats(); got.Owed != uint64(row.owed) || got.Forgiven != uint64(row.forgiven) {
				t.Errorf("MaxDebt %d: Stats = %+v; want %d owed and %d forgiven", row.debt, got, row.owed, row.forgiven)
			}
		})
	}
}

// A cost that is known before the end of the response is settled at once.
func TestH34_ClientsAreSettledBeforeTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := clientBudget(t, weirhttp.ClientBudgetOptions{})
		s := open(t, h1, weirhttp.Options{ClientBudget: b, Cost: completions}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Cost", "10")
			w.(http.Flusher).Flush()
			time.Sleep(10 * time.Second)
		})
		go s.promptAs("ada", `{"max_tokens":90}`)
		time.Sleep(time.Second)
		if r := s.promptAs("ada", `{"max_tokens":90}`); r.status != 200 {
			t.Errorf("got %d during a response that costs 10; want 200", r.status)
		}
	})
}

// The client whose request starts a call pays, even if it leaves. All other clients
// that get its response pay nothing, even without any units left.
func TestH34_TheClientThatStartsACallPays(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			b := clientBudget(t, weirhttp.ClientBudgetOptions{})
			cost := weirhttp.Cost{Units: 60}
			s := open(t, p, weirhttp.Options{ClientBudget: b, Cost: cost}, answering(time.Second, "Cache-Control", "public, max-age=5, stale-while-revalidate=100"))
			s.get("/poor", "X-User", "poor").want(t, 200, "/poor") // 41 are left
			first, leave := context.WithCancel(t.Context())
			go s.do(s.request(first, http.MethodGet, "/a", "X-User", "ada"))
			synctest.Wait()
			for range 3 {
				go s.get("/a", "X-User", "poor")
			}
			synctest.Wait()
			leave()
			s.get("/a", "X-User", "poor").want(t, 200, "/a") // joins
			s.get("/a", "X-User", "poor").want(t, 200, "/a") // hits
			time.Sleep(6 * time.Second)
			s.get("/a", "X-User", "poor").want(t, 200, "/a") // is stale, and refreshed in the background
			time.Sleep(2 * time.Second)
			s.wantCalls(3)
			s.get("/free").want(t, 200, "/free") // has no key
			if r := s.get("/b", "X-User", "ada"); r.status != 429 {
				t.Errorf("ada got %d; want 429, as it has paid for the call that it left", r.status)
			}
			if got := b.Stats(); got.Refused != 1 || got.Clients != 2 {
				t.Errorf("Stats = %+v; want one refusal", got)
			}
		})
	})
}

// A client is known by the fields that it sent, also those that the policy removes.
func TestH34_FieldsThatAreIgnoredStillTellTheClient(t *testing.T) {
	for _, alone := range []bool{false, true} {
		both(t, func(t *testing.T, p protocol) {
			synctest.Test(t, func(t *testing.T) {
				b := clientBudget(t, weirhttp.ClientBudgetOptions{})
				o := weirhttp.Options{ClientBudget: b, Cost: weirhttp.Cost{Units: 60}, NoCoalescing: alone}
				o.Policy.IgnoreHeaders = []string{"*"}
				s := open(t, p, o, func(w http.ResponseWriter, r *http.Request) {
					if got := r.Header.Get("X-User"); got != "" {
						t.Errorf("the field of user %s was forwarded; want it removed", got)
					}
					w.Header().Set("Cache-Control", "max-age=60")
					_, _ = io.WriteString(w, r.URL.Path)
				})
				s.get("/a", "X-User", "ada").want(t, 200, "/a")
				if r := s.get("/b", "X-User", "ada"); r.status != 429 {
					t.Errorf("alone %t: ada got %d for more than its budget; want 429", alone, r.status)
				}
				s.get("/b", "X-User", "bob").want(t, 200, "/b")
				if got := b.Stats(); got.Clients != 2 || got.Refused != 1 {
					t.Errorf("alone %t: Stats = %+v; want 2 clients, and one refusal", alone, got)
				}
			})
		})
	}
}

// Equal requests of a client that arrive at once share one call, and it pays once.
func TestH34_RequestsAtOnceCostOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := clientBudget(t, weirhttp.ClientBudgetOptions{})
		s := open(t, h2, weirhttp.Options{ClientBudget: b, Cost: weirhttp.Cost{Units: 100}}, answering(time.Second, "Cache-Control", "max-age=60"))
		for _, r := range s.together(200, s.same("/a", "X-User", "ada")) {
			r.want(t, 200, "/a")
		}
		s.wantCalls(1)
		if got := b.Stats(); got.Refused != 0 {
			t.Errorf("Stats = %+v; want no refusal", got)
		}
	})
}

// A client over its budget gets the stored response if it may be served stale.
func TestH34_AClientOverItsBudgetGetsWhatIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := clientBudget(t, weirhttp.ClientBudgetOptions{})
		s := open(t, h1, weirhttp.Options{ClientBudget: b, Cost: weirhttp.Cost{Units: 100}}, answering(0, "Cache-Control", "max-age=1, stale-if-error=20"))
		s.get("/a", "X-User", "ada").want(t, 200, "/a")
		time.Sleep(10 * time.Second)
		s.get("/a", "X-User", "ada").want(t, 200, "/a")
		s.wantCalls(1)
		if got := s.handler.Stats(); got.Stale != 1 || got.StaleOnError != 1 || got.Shed != 0 || got.RefusedClient != 0 {
			t.Errorf("Stats = %+v; want one stale response, not because of overload", got)
		}
		time.Sleep(20 * time.Second)
		if r := s.get("/a", "X-User", "ada"); r.status != 429 || r.header.Get("Retry-After") != "70" {
			t.Errorf("got %d, Retry-After %q; want 429 and 70", r.status, r.header.Get("Retry-After"))
		}
	})
}

// A call that is not made costs its client nothing.
func TestH34_ClientsPayNothingWithoutACall(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			b := clientBudget(t, weirhttp.ClientBudgetOptions{})
			full := permits(t, limit.ConcurrencyOptions{Limit: 1, Queue: -1})
			s := open(t, p, weirhttp.Options{ClientBudget: b, Cost: completions, Limiter: full}, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/panic" {
					panic("no")
				}
				weirhttp.SinkOf(w).Fail(&weirhttp.ForwardError{Err: io.EOF, Unreachable: true})
			})
			s.promptAs("ada", "{}")
			s.get("/", "X-User", "ada")
			s.get("/", "X-User", "ada", "If-None-Match", `"a"`)
			held, err := full.TryAcquire()
			if err != nil {
				t.Fatal(err)
			}
			if a, b := s.promptAs("ada", "{}"), s.get("/b", "X-User", "ada"); a.status != 503 || b.status != 503 {
				t.Errorf("got %d and %d; want 503", a.status, b.status)
			}
			held.Release(limit.Success)
			synctest.Wait()
			if got := b.Stats(); got.Returned != 5*40 {
				t.Errorf("Stats = %+v; want all of it returned", got)
			}
		})
	})
}

// Made-up clients neither refill a bucket that is spent, nor one that owes, nor lose what
// a call in flight owes later.
func TestH34_MadeUpClientsDoNotRefillABudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := weirhttp.NewClientBudget(weirhttp.ClientBudgetOptions{
			Units: 100, Per: time.Hour, Keys: 50, Key: weirhttp.ByHeader("X-User", weirhttp.ByAddress(nil)),
			Client: func(r *http.Request) netip.Addr { return netip.MustParseAddr(r.Header.Get("X-Address")) },
		})
		if err != nil {
			t.Fatal(err)
		}
		s := open(t, h1, weirhttp.Options{ClientBudget: b, Cost: weirhttp.Cost{Units: 60, Header: "X-Cost"}, HeadTimeout: -1}, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-User") == "slow" {
				time.Sleep(2 * time.Hour) // its bucket is full again when it costs more than it should
				w.Header().Set("X-Cost", "160")
			}
		})
		as := func(address, user string) int {
			return s.get("/"+url.PathEscape(user), "X-User", user, "X-Address", address).status
		}
		slow := make(chan int)
		go func() { slow <- as("192.0.2.1", "slow") }()
		if got := as("192.0.2.1", "ada"); got != 200 {
			t.Errorf("ada got %d; want 200", got)
		}
		let := 0
		for i := range 500 {
			if as("198.51.100.66", fmt.Sprint("made up ", i)) == 200 {
				let++
			}
		}
		if let > 50 {
			t.Errorf("%d of 500 made-up clients of an address were admitted; want at most 50", let)
		}
		if got := as("192.0.2.1", "ada"); got != 429 {
			t.Errorf("ada got %d after a flood; want 429", got)
		}
		if got := as("203.0.113.5", "new"); got != 200 {
			t.Errorf("a new client from another address got %d; want 200", got)
		}
		if got := <-slow; got != 200 {
			t.Errorf("slow got %d; want 200", got)
		}
		for i := range 500 {
			as("198.51.100.66", fmt.Sprint("made up later ", i))
		}
		if got := as("192.0.2.1", "slow"); got != 429 {
			t.Errorf("slow got %d; want 429, because it owes", got)
		}
	})
}

// Update keeps what clients have spent, and what they owe.
func TestH34_UpdateKeepsWhatClientsHaveSpent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := weirhttp.ClientBudgetOptions{Units: 100, Per: 100 * time.Second}
		b := clientBudget(t, o)
		s := open(t, h1, weirhttp.Options{ClientBudget: b, Cost: completions}, answering(time.Second, "X-Cost", "50"))
		s.promptAs("ada", `{"max_tokens":50}`).want(t, 200, "/")
		go s.promptAs("ada", `{"max_tokens":30}`) // in flight during Update: it is owed 20 more
		synctest.Wait()
		o.Units = 200
		if err := b.Update(o); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		// 200 − 79 + 2 per second − 20 with the debt.
		if r := s.promptAs("ada", `{"max_tokens":141}`); r.status != 429 || r.header.Get("Retry-After") != "10" {
			t.Errorf("got %d, Retry-After %q; want 429 and 10", r.status, r.header.Get("Retry-After"))
		}
		o.Name = "other"
		if err := b.Update(o); err == nil {
			t.Error("Update with another Name succeeded")
		}
	})
}

func TestH34_FaultsOfAClientBudget(t *testing.T) {
	for field, o := range map[string]weirhttp.ClientBudgetOptions{
		"Units":   {},
		"Per":     {Units: 1, Per: 1500 * time.Microsecond},
		"Burst":   {Units: 1, Burst: -1},
		"MaxDebt": {Units: 1, MaxDebt: limit.MaxUnits + 1},
		"Keys":    {Units: 1, Keys: -1},
		"Name":    {Units: 1, Name: "ä"},
	} {
		_, err := weirhttp.NewClientBudget(o)
		var e *weirhttp.OptionError
		if !errors.As(err, &e) || e.Field != "ClientBudgetOptions."+field {
			t.Errorf("NewClientBudget = %v; want a fault in %s", err, field)
		}
	}
	b := clientBudget(t, weirhttp.ClientBudgetOptions{})
	if err := (weirhttp.Options{ClientBudget: b}).Validate(); err == nil || !strings.Contains(err.Error(), "ClientBudget") {
		t.Errorf("Validate of a ClientBudget without a Cost = %v; want a fault", err)
	}
	for _, o := range []weirhttp.ClientBudgetOptions{
		{Units: limit.MaxUnits, Per: 24 * time.Hour, Burst: limit.MaxUnits, MaxDebt: limit.MaxUnits},
		{Units: 1, Per: 24 * time.Hour, Burst: limit.MaxUnits, MaxDebt: limit.MaxUnits},
		{Units: 1_000_003, Per: 24*time.Hour - time.Millisecond, Burst: limit.MaxUnits},
	} {
		if _, err := weirhttp.NewClientBudget(o); err != nil {
			t.Errorf("NewClientBudget = %v; want it to accept any Units, Per and Burst within their bounds", err)
		}
	}
}

// H42: the tenant and the priority of a request depend on the fields that it had, also on
// those that the policy removes.
func TestH42_FieldsThatAreIgnoredStillTellTheTenant(t *testing.T) {
	for _, alone := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var tenants, priorities []string
			o := weirhttp.Options{
				NoCoalescing: alone, Limiter: permits(t, limit.ConcurrencyOptions{Limit: 1}),
				Tenant: func(r *http.Request) limit.Tenant {
					tenants = append(tenants, r.Header.Get("X-User"))
					return limit.Tenant{}
				},
				Priority: func(r *http.Request) limit.Priority {
					priorities = append(priorities, r.Header.Get("X-User"))
					return limit.Normal
				},
			}
			o.Policy.IgnoreHeaders = []string{"*"}
			s := open(t, h1, o, answering(0, "Cache-Control", "max-age=60"))
			s.get("/a", "X-User", "ada").want(t, 200, "/a")
			if got := fmt.Sprint(tenants, priorities); got != "[ada] [ada]" {
				t.Errorf("alone %t: Tenant and Priority saw the users %s; want ada in both", alone, got)
			}
		})
	}
}
