package console_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/console"
	"github.com/weir-go/weir/inspect"
)

// C6, C11: units beyond the bound are one unit, and totals are of all. Every number of a
// unit is in the sum.
func TestC11_UnitsBeyondTheBoundAreOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = console.MaxUnits + 7
		var times inspect.Histogram
		times.Record(time.Second)
		units := func(by uint64) (all []console.Unit) {
			for i := range n {
				u := console.Unit{
					Name: fmt.Sprintf("unit %03d", i), Kind: "method", Requests: by, Missed: by, MissedErrors: by, Unanswered: by, Left: by,
					Avoided: console.Avoided{Hits: by, Stale: by, Negative: by, Failures: by, Joined: by, Validated: by, Fleet: by},
					Refused: console.Refused{Limit: by, Budget: by, Paused: by, Unreachable: by, Client: by, ClientBudget: by, TooLarge: by, Stuck: by}, Cost: &console.Cost{Spent: by, Hits: by, Joined: by, Fleet: by, Refused: by},
					Responses: &console.Responses{Switched: by, Success: by, Redirect: by, ClientError: by, ServerError: by, Broken: by, Left: by},
					Calls:     by, Refreshes: by, Failed: by, Timeouts: by, Panics: by, Abandoned: by, StaleOnError: by, Evicted: by,
					Entries: 1, Flights: 1, Running: 1, Refreshing: 1, Waiting: 1, Stuck: 1,
					RequestTime: times.Durations(), WaitTime: times.Durations(), CallTime: times.Durations(),
				}
				all = append(all, u)
			}
			return all
		}
		s := &source{}
		s.tell(units(1))
		c := newConsole(t, console.Options{Source: s, Interval: time.Second})
		l := listen(t, serve(t, &http.Server{Handler: c}), "http://localhost/events")
		sent := l.hello.Snapshot.Units
		if len(sent) != console.MaxUnits || sent[console.MaxUnits-1].Name != console.Others || sent[console.MaxUnits-1].Kind != "method" {
			t.Fatalf("%d units, the last is %q; want %d, and the others", len(sent), sent[len(sent)-1].Name, console.MaxUnits)
		}
		b, err := json.Marshal(sent[console.MaxUnits-1])
		if err != nil {
			t.Fatal(err)
		}
		var numbers map[string]any
		if err := json.Unmarshal(b, &numbers); err != nil {
			t.Fatal(err)
		}
		var check func(of string, v any)
		check = func(of string, v any) {
			switch v := v.(type) {
			case map[string]any:
				for name, v := range v {
					if name != "name" && name != "kind" && !strings.HasSuffix(name, "_ns") {
						check(of+" "+name, v)
					}
				}
			case float64:
				if v != 8 {
					t.Errorf("%s of the others is %v; want the sum of 8 units", of, v)
				}
			}
		}
		check("", numbers)
		if w := get("/api/units/" + url.PathEscape(console.Others)).on(c); w.Code != http.StatusOK || into[console.Detail](t, w).Unit.Requests != 8 {
			t.Errorf("the page of the others is %d: %s", w.Code, w.Body)
		}
		s.tell(units(3))
		tick := l.tick()
		checkPoint(t, "total", tick.Total, console.Point{"requests": 2 * n, "http_5xx": 2 * n, "calls": 2 * n, "missed": 2 * n})
		checkPoint(t, "others", tick.Units[console.Others], console.Point{"requests": 16})
	})
}
