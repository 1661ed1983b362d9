package weirhttp_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirhttp"
)

// H22, H31: observe mode counts the refusals of budgets, and refuses nothing. The cost that a
// response states is settled as without it, so that the count is right.
func TestH22_ObserveModeCountsRefusalsByBudgets(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			budget, err := limit.NewRateLimiter(limit.RateOptions{PerSecond: 1, Burst: 32, Queue: -1})
			if err != nil {
				t.Fatal(err)
			}
			stated := ""
			o := weirhttp.Options{
				Observe: true, Cost: weirhttp.Cost{Units: 10, Header: "X-Cost"}, Budget: budget,
				ClientBudget: clientBudget(t, weirhttp.ClientBudgetOptions{Units: 1, Per: time.Hour, Burst: 20}),
			}
			s := open(t, p, o, func(w http.ResponseWriter, _ *http.Request) {
				if stated != "" {
					w.Header().Set("X-Cost", stated)
				}
			})
			want := func(refused, client uint64) {
				t.Helper()
				synctest.Wait()
				if got := s.handler.Stats().Observed; got.RefusedBudget != refused || got.RefusedClient != client || got.Refused != 0 {
					t.Errorf("observed %+v; want %d by the budget, and %d by that of a client", got, refused, client)
				}
			}
			get := func(path, user string) { t.Helper(); s.get(path, "X-User", user).want(t, 200, "") }
			get("/a", "ada")
			get("/b", "ada")
			want(0, 0)
			get("/c", "ada") // has used up its budget
			want(0, 1)
			stated = "1"
			get("/d", "bob")
			want(0, 1)
			get("/e", "cyd") // there are units for it, because the call before cost less
			want(0, 1)
			stated = ""
			get("/f", "dan")
			want(1, 1)
			get("/g", "dan") // paid nothing for the call that was refused
			get("/h", "dan")
			want(3, 1)
			if st := s.handler.Stats(); st.Cost.Spent != 10+10+10+1+1+10+10+10 || st.Refused != 0 || st.RefusedClient != 0 {
				t.Errorf("%+v spent, %d and %d refused; want 62 units, and nothing refused", st.Cost, st.Refused, st.RefusedClient)
			}
		})
	})
}
