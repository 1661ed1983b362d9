package console_test

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/console"
)

type point = map[string]float64

// fill returns a series that has had these values for n seconds.
func fill(n int, p point) console.Series {
	s := console.Series{"t": make(console.Column, n)}
	for i := range n {
		s["t"][i] = float64(1000 + i)
		for name, v := range p {
			s[name] = append(s[name], v)
		}
	}
	return s
}

// A scene is what incidents are found in. units have had their values for ten seconds.
type scene struct {
	now            console.Snapshot
	total          point
	units          map[string]point
	limits, budget map[string]point
}

// one returns a scene with the unit checkout, which is a route.
func one(p point, changes ...func(*scene)) scene {
	s := scene{total: p, units: map[string]point{"checkout": p}, now: console.Snapshot{Units: []console.Unit{{Name: "checkout", Kind: "route", Requests: 1, Calls: 1}}}}
	for _, change := range changes {
		change(&s)
	}
	return s
}

func (s scene) incidents() []console.Incident {
	all := func(m map[string]point) map[string]console.Series {
		out := map[string]console.Series{}
		for name, p := range m {
			out[name] = fill(10, p)
		}
		return out
	}
	return console.Incidents(s.now, time.Second, fill(10, s.total), all(s.units), all(s.limits), all(s.budget))
}

func (s scene) lines() []string {
	lines := []string{}
	for _, i := range s.incidents() {
		lines = append(lines, i.Level+" "+i.Subject+": "+plainly(i.Text))
	}
	return lines
}

// plainly has the usual space between a number and its unit.
func plainly(text string) string { return strings.ReplaceAll(text, "\u202f", " ") }

func unit(change func(*console.Unit)) func(*scene) { return func(s *scene) { change(&s.now.Units[0]) } }

// The rules, each with what is said about it. The web page and weir top show what is found here.
func TestC12_Incidents(t *testing.T) {
	counted := unit(func(u *console.Unit) { u.Responses = &console.Responses{} })
	now := func(change func(*console.Snapshot)) func(*scene) { return func(s *scene) { change(&s.now) } }
	limits := func(l console.Limit, queued float64) func(*scene) {
		return func(s *scene) {
			s.now.Limits, s.limits = []console.Limit{l}, map[string]point{l.Name: {"queued": queued}}
		}
	}
	servers := func(all ...console.Server) func(*scene) {
		return now(func(s *console.Snapshot) {
			for i := range all {
				all[i].Upstream = "shop"
			}
			s.Servers = all
		})
	}
	db := console.Limit{Name: "db", Kind: "fixed", Limit: 10, Queued: 5, Held: 100 * time.Millisecond}
	overloaded, drained := db, db
	overloaded.Overloaded, drained.Queued = true, 0
	storm := drained
	storm.Storm, storm.Limit = true, 3
	a, b := console.Server{URL: "a", Ejected: true, Healthy: true}, console.Server{URL: "b", Healthy: true}
	sick := console.Server{URL: "b"}
	why := a
	why.Left, why.Reason = time.Date(2026, 11, 29, 2, 31, 5, 0, time.Local), "5 calls in a row failed: connection refused"
	back := why
	back.Ejected, back.Returned = false, why.Left.Add(time.Minute)
	bad := console.Server{URL: "c", Healthy: true, State: "penalized", Left: why.Left, Reason: "500 where the others answer"}
	trying := bad
	trying.State, trying.URL, trying.Reason = "trying", "d", ""
	queues := func(all ...console.Queue) func(*scene) { return now(func(s *console.Snapshot) { s.Queues = all }) }
	queue := func(name string, dead int) console.Queue {
		return console.Queue{Name: name, Waiting: 3, Dead: dead, Age: 5 * time.Minute}
	}
	paused := func(name string, waiting int) console.Queue {
		return console.Queue{Name: name, Waiting: waiting, Age: 5 * time.Minute, Paused: true}
	}
	orphan := func(o console.Orphan) func(*scene) {
		o.Setting = "async: {formerly: [old]}"
		return queues(console.Queue{Name: "old", Waiting: 3, Dead: 2, Age: 5 * time.Minute, Orphan: &o})
	}
	upstream := func(s *scene) {
		s.now.Units[0].Upstream, s.now.Units[0].Limit = "llm", "llm"
		s.now.Units = append(s.now.Units, console.Unit{Name: "search", Kind: "route", Upstream: "llm"})
		s.units["search"] = point{"requests": 5, "cost_spent": 10}
		s.units["checkout"]["cost_spent"] = 30
		s.now.Limits, s.limits = []console.Limit{{Name: "llm", Kind: "fixed", Limit: 8}}, map[string]point{"llm": {}}
		s.now.Budgets = []console.Budget{
			{Kind: "upstream", Name: "llm", PerSecond: 2000.0 / 60, Burst: 2000, Left: -3.5},
			{Kind: "client", Name: "checkout", PerSecond: 50.0 / 3600, Burst: 500, Over: []console.ClientShare{{Address: "10.0.0.7", Share: .9}, {Address: "10.0.0.8", Share: .01}}},
		}
		s.budget = map[string]point{"upstream llm": {"refused": 30}}
	}
	for _, row := range []struct {
		name string
		s    scene
		want []string
	}{
		{"nothing", one(point{"requests": 100, "hits": 90, "calls": 10}), nil},
		{"stale instead", one(point{"requests": 100, "calls": 100, "failed": 97, "stale_on_error": 50}), []string{"bad checkout: 97.0 % of calls to the source fail; stale responses are served instead, 50/s."}},
		{"nothing instead", one(point{"requests": 100, "calls": 100, "failed": 100}), []string{"bad checkout: all calls to the source fail; there is no stale response to serve instead."}},
		{"errors and stale", one(point{"requests": 100, "calls": 100, "failed": 100, "http_2xx": 60, "http_5xx": 40, "stale_on_error": 60}),
			[]string{"bad checkout: all calls to the source fail; clients get errors, 40/s, which is 40 % of all responses, and stale responses are served instead, 60/s."}},
		{"some fail", one(point{"requests": 100, "calls": 100, "failed": 10}), []string{"warn checkout: 10 % of calls to the source fail; there is no stale response to serve instead."}},
		{"one failure is no trend", one(point{"requests": 100, "calls": 1, "failed": .1}), nil},
		{"stale", one(point{"requests": 100, "calls": 10, "stale_on_error": 2}), []string{"warn checkout: stale responses are served instead of errors or long waits, 2/s."}},
		{"over their rate", one(point{"requests": 100, "refused_client": 40, "hits": 60, "http_2xx": 60, "http_4xx": 40}, counted),
			[]string{"note checkout: clients that exceed their rate get 429, 40/s. Others are not affected."}},
		{"a few refused", one(point{"requests": 100, "refused": 2}), []string{"warn checkout: 2.0 % of requests are refused with 503 because the limit on concurrent calls is reached, 2/s."}},
		{"many refused", one(point{"requests": 100, "refused": 30}), []string{"bad checkout: 30 % of requests are refused with 503 because the limit on concurrent calls is reached, 30/s."}},
		{"over budget", one(point{"requests": 95, "refused": 30, "refused_budget": 30}, upstream),
			[]string{"bad llm: 30 % of requests are refused with 503 because the budget is used up, 30/s; that of the upstream llm owes 3 units, of 2,000, and refills at 2,000 per minute; checkout has spent most, 75 %."}},
		{"over budget and limit", one(point{"requests": 95, "refused": 30, "refused_budget": 20}, upstream), []string{
			"bad llm: 10 % of requests are refused with 503 because the limit on concurrent calls is reached, 10/s.",
			"bad llm: 20 % of requests are refused with 503 because the budget is used up, 20/s; that of the upstream llm owes 3 units, of 2,000, and refills at 2,000 per minute; checkout has spent most, 75 %.",
		}},
		{"client over budget", one(point{"requests": 95, "refused_client": 30, "refused_client_budget": 30}, upstream),
			[]string{"note checkout: clients that have used up their budget get 429, 30/s, most to 10.0.0.7 (90.0 %). Others are not affected."}},
		{"on the fallback", one(point{"requests": 95, "fell_back": 12}, unit(func(u *console.Unit) { u.Fallback = &console.Fallback{Upstream: "standby", Own: "main"} })),
			[]string{"warn checkout: requests to which upstream main does not respond go to upstream standby, 12/s."}},
		{"too large", one(point{"requests": 95, "too_large": 3}, upstream),
			[]string{"note checkout: requests that cost more than a budget ever allows get 413, 3/s. They fail however long their client waits."}},
		{"paused", one(point{"requests": 100, "refused": 30, "refused_paused": 30}),
			[]string{"bad checkout: 30 % of requests are refused with 503 because the source has asked for a pause, or stated that nothing is left, 30/s."}},
		{"unreachable", one(point{"requests": 100, "refused": 30, "refused_unreachable": 30}),
			[]string{"bad checkout: 30 % of requests are refused with 503 because a limit of the fleet cannot be reached, 30/s."}},
		{"errors that nothing explains", one(point{"requests": 100, "http_2xx": 90, "http_5xx": 10}, counted), []string{"bad Clients: 10 % of the responses are errors, 10/s."}},
		{"stuck", one(point{"requests": 100}, unit(func(u *console.Unit) { u.Stuck = 1 })), []string{"bad checkout: 1 call to the source is stuck: abandoned long ago, but still running."}},
		{"a standing queue", one(point{}, limits(db, 5)), []string{"warn db: a queue of 5 calls is not draining, which means a wait of about 50 ms."}},
		{"a queue that comes and goes", one(point{}, limits(drained, 5)), nil},
		{"a retry storm", one(point{}, limits(storm, 0)), []string{"bad db: most calls ended after their clients had left, so the limit is lowered to 3 calls."}},
		{"overloaded", one(point{}, limits(overloaded, 0)), []string{"warn db: the source is slower than it should be, so the limit is kept low."}},
		{"one of two servers", one(point{}, servers(a, b)), []string{"warn shop: 1 of 2 servers is ejected or fails its checks; the others take its calls."}},
		{"one of two servers, and why", one(point{}, servers(why, b)), []string{"warn shop: 1 of 2 servers is ejected or fails its checks: a since 02:31:05, because 5 calls in a row failed: connection refused; the others take its calls."}},
		{"a server that is back", one(point{}, servers(back, b), now(func(s *console.Snapshot) { s.At = back.Returned.Add(9 * time.Minute) })),
			[]string{"note shop: a got no calls from 02:31:05 to 02:32:05, because 5 calls in a row failed: connection refused."}},
		{"a server that has long been back", one(point{}, servers(back, b), now(func(s *console.Snapshot) { s.At = back.Returned.Add(11 * time.Minute) })), nil},
		{"a penalized server", one(point{}, servers(bad, b)), []string{"warn shop: 1 of 2 servers is penalized: c since 02:31:05, because 500 where the others answer; the others take the calls."}},
		{"a penalty and a trial", one(point{}, servers(trying, bad, a, b)), []string{
			"warn shop: 1 of 4 servers is ejected or fails its checks; the others take its calls.",
			"warn shop: 2 of 4 servers are penalized: c since 02:31:05, because 500 where the others answer; the others take the calls.",
		}},
		{"two of two", one(point{}, servers(a, sick)), []string{"bad shop: all 2 servers are ejected or fail their checks; there is no stale response to serve instead."}},
		{"the only one", one(point{}, servers(a)), []string{"bad shop: its only server is ejected or fails its checks; there is no stale response to serve instead."}},
		{"the fleet", one(point{}, now(func(s *console.Snapshot) { s.Tier = &console.Tier{Open: true, Pending: 2} })),
			[]string{"warn Fleet: the shared store does not respond: this instance works independently until it does. 2 invalidations will be sent again until it has them."}},
		{"the process", one(point{}, now(func(s *console.Snapshot) { s.Process.State = "draining" })), []string{"warn Process: /readyz answers 503: draining."}},
		{"alone", one(point{}, unit(func(u *console.Unit) {
			u.Alone = []console.Alone{{Text: "Uploads."}, {Text: "They differ.", Next: "vary: [X]", Advise: true}, {Text: "Cookies.", Advise: true}}
		})), []string{"note checkout: They differ."}},
		{"observing", one(point{}, unit(func(u *console.Unit) { u.Observed = &console.Observed{Text: "70 would be saved."} })), []string{"note checkout: 70 would be saved."}},
		{"jobs", one(point{}, queues(queue("mail", 1), queue("thumbs", 4))),
			[]string{"warn Jobs: 6 jobs of mail and thumbs waiting, the oldest for 5 min, and none running.", "note Jobs: 5 jobs of mail and thumbs are dead: out of attempts."}},
		{"one paused queue", one(point{}, queues(paused("mail", 1))), []string{"warn Jobs: mail is paused: none of its jobs starts, and 1 job is waiting."}},
		{"paused queues", one(point{}, queues(paused("a", 3), paused("b", 3), paused("c", 3), paused("d", 3), queue("e", 0))),
			[]string{"warn Jobs: a, b, c and 1 more queue are paused: none of their jobs starts, and 12 jobs are waiting.", "warn Jobs: 3 jobs of e waiting, the oldest for 5 min, and none running."}},
		{"idempotency keys", one(point{}, now(func(s *console.Snapshot) { s.Idempotency = &console.Idempotency{Keys: 5, MaxKeys: 100, MaxBytes: 1} })), nil},
		{"unknown outcomes", one(point{}, now(func(s *console.Snapshot) {
			s.Idempotency = &console.Idempotency{Unknown: 2, Keys: 5, MaxKeys: 100, MaxBytes: 1}
		})),
			[]string{"warn Idempotency keys: it is unknown whether 2 calls took effect."}},
		{"a store of keys that fills", one(point{}, now(func(s *console.Snapshot) { s.Idempotency = &console.Idempotency{Keys: 90, MaxKeys: 100, MaxBytes: 1} })),
			[]string{"warn Idempotency keys: 90.0 % of the store is in use. Requests with a new key get 503 when it is full."}},
		{"a store of keys that is full", one(point{}, now(func(s *console.Snapshot) { s.Idempotency = &console.Idempotency{MaxKeys: 1, Bytes: 100, MaxBytes: 100} })),
			[]string{"bad Idempotency keys: 100 % of the store is in use. Requests with a new key get 503 when it is full."}},
		{"an orphan", one(point{}, orphan(console.Orphan{Queued: 3, Started: 1, Dead: 2, Finished: 4})),
			[]string{"warn Jobs: no route serves the jobs of old (3 queued, 1 started, 2 dead, 4 finished): they do not run, and clients get 404 for them."}},
		{"an orphan's results", one(point{}, orphan(console.Orphan{Finished: 1})),
			[]string{"note Jobs: no route serves the jobs of old (1 finished): they do not run, and clients get 404 for them."}},
	} {
		if got := row.s.lines(); !slices.Equal(got, row.want) {
			t.Errorf("%s:\n\t%s\nwant\n\t%s", row.name, strings.Join(got, "\n\t"), strings.Join(row.want, "\n\t"))
		}
		for _, i := range row.s.incidents() {
			if i.Key == "" || i.Badge == "" || i.Level == "bad" && i.Next == "" {
				t.Errorf("%s: %+v; want a key, a badge, and a next step if it is bad", row.name, i)
			}
			if strings.Contains(i.Text, "budget") && strings.Contains(i.Next, "Raise the limit") {
				t.Errorf("%s: the next step is %q; a limit has nothing to do with a budget", row.name, i.Next)
			}
		}
	}
}

// A source that is rarely called is judged by its latest calls, and how long it has failed is said.
func TestC12_RareCallsAreJudgedOverALongerTime(t *testing.T) {
	at := func(seconds ...int) (c console.Column) {
		for i := range 100 {
			c = append(c, map[bool]float64{true: 1}[slices.Contains(seconds, 99-i)])
		}
		return c
	}
	for _, row := range []struct {
		name          string
		failed, calls console.Column
		want          string
	}{
		{"three of three", at(5, 20, 40), at(5, 20, 40), "all calls to the source failed in the last 60 s, for 40 s; there is no stale response to serve instead."},
		{"two of five, and the last ones succeeded", at(20, 40), at(1, 2, 3, 20, 40), ""},
		{"five of seven", at(11, 13, 15, 17, 19), at(1, 3, 11, 13, 15, 17, 19), "71 % of calls to the source failed in the last 20 s; there is no stale response to serve instead."},
		{"longer ago", at(70, 80), at(2, 70, 80), ""},
		{"one", at(5), at(5), ""},
	} {
		s := fill(100, nil)
		s["calls"], s["failed"] = row.calls, row.failed
		got := console.Incidents(console.Snapshot{Units: []console.Unit{{Name: "night", Kind: "route"}}}, time.Second, fill(100, nil), map[string]console.Series{"night": s}, nil, nil)
		text := ""
		if len(got) > 0 {
			text = plainly(got[0].Text)
		}
		if text != row.want {
			t.Errorf("%s: %q; want %q", row.name, text, row.want)
		}
	}
}

// One outage of a service behind three routes fails their calls, ejects its servers, fills the queue
// and refuses requests. It is one incident, and two outages at the same time are one too.
func TestC12_OneOutageIsOneIncident(t *testing.T) {
	bad := point{"requests": 100, "calls": 50, "failed": 50, "refused": 30, "stale_on_error": 5, "http_5xx": 80, "http_2xx": 5}
	s := scene{total: bad, units: map[string]point{}, limits: map[string]point{"shop": {"queued": 9, "limit": 1}}}
	add := func(name, upstream string) {
		s.now.Units = append(s.now.Units, console.Unit{Name: name, Kind: "route", Upstream: upstream, Limit: upstream, Requests: 1, Calls: 1, Responses: &console.Responses{}})
		s.units[name] = maps.Clone(bad)
	}
	for _, name := range []string{"pages", "search", "cart"} {
		add(name, "shop")
	}
	s.now.Limits = []console.Limit{{Name: "shop", Limit: 1, Queued: 9, Held: 10 * time.Millisecond, Overloaded: true}}
	s.now.Servers = []console.Server{{Upstream: "shop", URL: "http://10.0.0.1", Ejected: true, Healthy: true}, {Upstream: "shop", URL: "http://10.0.0.2"}}
	all := s.incidents()
	if len(all) != 1 || all[0].Level != "bad" || all[0].Badge != "source failing" || !slices.Equal(all[0].Units, []string{"pages", "search", "cart"}) ||
		!strings.HasPrefix(all[0].Text, "all calls to the source fail, and 2 of 2 servers are ejected or fail their checks; clients get errors") ||
		!strings.HasPrefix(all[0].Next, "Check the servers, such as http://10.0.0.1,") {
		t.Errorf("%+v; want one incident of the upstream", all)
	}
	add("stock", "stock")
	if all := s.incidents(); len(all) != 1 || !strings.HasPrefix(all[0].Text, "2 are down at the same time, shop and stock; clients get errors") {
		t.Errorf("%+v; want one incident that names both", all)
	}
}

// The worst comes first.
func TestC12_TheWorstIncidentComesFirst(t *testing.T) {
	s := one(point{"requests": 100, "calls": 100, "failed": 97}, func(s *scene) {
		s.now.Tier, s.now.Queues = &console.Tier{Open: true}, []console.Queue{{Name: "mail", Dead: 1}}
	})
	var levels []string
	for _, i := range s.incidents() {
		levels = append(levels, cmp.Or(i.Level, "none"))
	}
	if !slices.Equal(levels, []string{"bad", "warn", "note"}) {
		t.Errorf("levels %v; want bad, warn, note", levels)
	}
}
