package weirhttp_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/weirhttp"
)

// crowd sends requests for /a at once: those of rich clients between those of others that
// have spent all of their units, because the last one that waits often leads the next call.
// It returns how long the rich ones took. The engine takes 10 ms, and the origin 1 s.
func crowd(t *testing.T, poor, rich int) (took time.Duration, calls int64) {
	f := openPaying(t, 1, weirhttp.ClientBudgetOptions{Units: 100, Per: 24 * time.Hour}, func(o *weirhttp.Options, _ fleet.Tier) {
		o.Cost = weirhttp.Cost{Units: 100}
	}, answering(time.Second, "Cache-Control", "public, max-age=60"))
	s := f.sites[0]
	as := func(path, user string) *http.Request {
		return s.request(t.Context(), http.MethodGet, path, "X-User", user)
	}
	for _, r := range s.together(poor, func(i int) *http.Request { return as(fmt.Sprint("/", i), fmt.Sprint("poor", i)) }) {
		if r.status != 200 {
			t.Fatalf("got %d; want 200", r.status)
		}
	}
	f.lines[0].Before(func(op string) {
		if op == "spend" {
			time.Sleep(10 * time.Millisecond)
		}
	})
	var wg sync.WaitGroup
	half := func(from int) {
		wg.Go(func() {
			s.together(poor/2, func(i int) *http.Request { return as("/a", fmt.Sprint("poor", from+i)) })
		})
		time.Sleep(time.Millisecond)
	}
	half(0)
	wg.Go(func() {
		began := time.Now()
		for _, r := range s.together(rich, func(i int) *http.Request { return as("/a", fmt.Sprint("rich", i)) }) {
			r.want(t, 200, "/a")
		}
		took = time.Since(began)
	})
	time.Sleep(time.Millisecond)
	half(poor / 2)
	wg.Wait()
	return took, s.calls.Load() - int64(poor)
}

// However many of the clients that wait for one call cannot pay for it, those that can
// share one.
func TestH34_ClientsThatCanPayShareOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if _, calls := crowd(t, 60, 2); calls != 1 {
			t.Errorf("the origin was called %d times for /a; want once", calls)
		}
	})
}

// A client that can pay waits for at most 64 that cannot, and then makes its own call.
func TestH34_ClientsThatCannotPayDoNotHoldUpAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if took, _ := crowd(t, 1000, 1); took > 1750*time.Millisecond {
			t.Errorf("the client that can pay got its response after %v; want at most 70 requests to the engine, and the call", took)
		}
	})
}

// A client that the fleet refuses does not keep its place on this instance.
func TestH34_ARefusedClientKeepsNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := fleet.NewMemory(fleet.MemoryOptions{})
		var sites []*site
		for range 2 {
			b, err := weirhttp.NewClientBudget(onLedger(weirhttp.ClientBudgetOptions{
				Units: 100, Per: time.Hour, Keys: 1, Key: weirhttp.ByHeader("X-User", nil),
				Client: func(r *http.Request) netip.Addr { return netip.MustParseAddr(r.Header.Get("X-Address")) },
			}, engine))
			if err != nil {
				t.Fatal(err)
			}
			sites = append(sites, open(t, h1, weirhttp.Options{ClientBudget: b, Cost: weirhttp.Cost{Units: 60}}, answering(0)))
		}
		want := func(by, status int, user, address string) {
			t.Helper()
			if r := sites[by].get("/", "X-User", user, "X-Address", address); r.status != status {
				t.Errorf("%s from %s got %d; want %d", user, address, r.status, status)
			}
		}
		want(0, 200, "ada", "192.0.2.1")
		want(1, 429, "ada", "192.0.2.1") // the other instance alone would have admitted it
		time.Sleep(2 * time.Hour)
		want(1, 200, "bob", "192.0.2.2") // takes the only place
		want(1, 429, "bob", "192.0.2.3") // else it would count by address, and each address has its units
	})
}

// ClientBudgets of one fleet are separate if their names differ.
func TestH34_ClientBudgetsOfAFleetHaveNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := fleet.NewMemory(fleet.MemoryOptions{})
		for _, name := range []string{"search", "model"} {
			s := open(t, h1, weirhttp.Options{
				ClientBudget: clientBudget(t, onLedger(weirhttp.ClientBudgetOptions{Name: name}, engine)), Cost: weirhttp.Cost{Units: 100},
			}, answering(0))
			s.get("/", "X-User", "ada").want(t, 200, "/")
			s.get("/2", "X-User", "ada").wantRefused(t, 429, "100")
		}
	})
}
