package weirhttp_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/weirhttp"
)

// The clients that a budget refuses are known by their address, never by the field that identifies
// them, in a bounded table in which made-up clients do not hide the one that is refused most.
func TestH34_ABudgetKnowsWhomItRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := clientBudget(t, weirhttp.ClientBudgetOptions{Client: func(r *http.Request) netip.Addr { return netip.MustParseAddr(r.Header.Get("X-Address")) }})
		s := open(t, h1, weirhttp.Options{ClientBudget: b, Cost: completions}, answering(0))
		refuse := func(address string) {
			r := s.request(t.Context(), "GET", "/?"+address, "X-User", "ada", "X-Address", address)
			s.do(r)
		}
		for range 100 { // the budget is used up
			s.do(s.request(t.Context(), "POST", "/", "X-User", "ada", "X-Address", "10.0.0.7"))
		}
		for i := range 200 {
			refuse("10.0.0.7")
			if i < 90 {
				refuse(fmt.Sprintf("10.0.1.%d", i))
			}
		}
		got := b.Refused(3)
		if len(got) != 3 || got[0].Address != "10.0.0.7" || got[0].Share < .7 || got[0].Share > .8 {
			t.Errorf("Refused = %+v; want 10.0.0.7 first, with 298 of 388", got)
		}
		time.Sleep(time.Hour)
		if got := b.Refused(3); len(got) != 0 {
			t.Errorf("Refused = %+v after an hour; want none", got)
		}
	})
}
