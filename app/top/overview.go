package top

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weir-go/weir/console"
)

// present is how long "now" is: the console's numbers are means over the same time.
const present = 10 * time.Second

// An Overview is what weir top shows at one moment, and with --json writes.
type Overview struct {
	At      time.Time `json:"at"`
	Title   string    `json:"title"`
	Version string    `json:"version,omitempty"`
	Up      float64   `json:"up_s"`
	State   string    `json:"state"`

	Incidents []console.Incident `json:"incidents"` // the worst first; the console has found them
	Total     Rates              `json:"total"`
	Cost      *Cost              `json:"cost,omitempty"` // since the start; nil: none was counted
	Routes    []Route            `json:"routes"`         // by requests, most first
	Servers   []Server           `json:"servers,omitempty"`
	Limits    []Limit            `json:"limits,omitempty"`
	Budgets   []console.Budget   `json:"budgets,omitempty"`
	Queues    []Queue            `json:"queues,omitempty"`
}

// Rates are per second, as means over the last ten seconds, with the definitions of the
// console (decision 0081). Shares are from 0 to 1. NaN, which is null in JSON, is unknown.
type Rates struct {
	Responses map[string]float64 `json:"responses,omitempty"` // by class; nil: not counted
	Received  float64            `json:"received"`            // the sum of Responses, without those that left
	Errors    number             `json:"errors_share"`        // 5xx and broken, of Received
	Requests  float64            `json:"requests"`
	Saved     number             `json:"saved_share"`      // answered without a call of their own
	WouldSave number             `json:"would_save_share"` // in observe mode, without it
	Calls     float64            `json:"calls"`            // of the source
	Failed    float64            `json:"failed"`           // of Calls
	Refused   float64            `json:"refused"`          // with 503: by limits, budgets and pauses
	OverRate  float64            `json:"over_rate"`        // with 429: clients over their rate, or their budget
	TooLarge  float64            `json:"too_large"`        // with 413: for a limit or a budget
	RefusedBy map[string]float64 `json:"refused_by"`       // of these three, by what refused them
	Stale     float64            `json:"stale_on_error"`

	CostSpent   float64 `json:"cost_spent"`   // units of cost
	CostAvoided float64 `json:"cost_avoided"` // by hits and shared calls
	CostRefused float64 `json:"cost_refused"` // by budgets

	P50 number `json:"p50_s"`
	P99 number `json:"p99_s"`
}

// Cost is what all routes have cost together since the start, in units. Money is nil unless
// all of them have a price in the same currency.
type Cost struct {
	Spent   uint64 `json:"spent"`
	Avoided uint64 `json:"avoided"`
	Refused uint64 `json:"refused"`
	Money   *Money `json:"money,omitempty"`
}

// Money is a Cost in a currency.
type Money struct {
	Currency string  `json:"currency"`
	Spent    float64 `json:"spent"`
	Avoided  float64 `json:"avoided"`
	Refused  float64 `json:"refused"`
}

// costs returns the sum of what units have cost.
func costs(units []console.Unit) *Cost {
	var c *Cost
	m := &Money{}
	for _, u := range units {
		if u.Cost == nil {
			continue
		}
		if c == nil {
			c, m.Currency = new(Cost), u.Cost.Currency
		}
		c.Spent, c.Avoided, c.Refused = c.Spent+u.Cost.Spent, c.Avoided+u.Cost.Avoided(), c.Refused+u.Cost.Refused
		if m == nil || u.Cost.Price <= 0 || u.Cost.Currency != m.Currency {
			m = nil
			continue
		}
		m.Spent += float64(u.Cost.Spent) * u.Cost.Price
		m.Avoided += float64(u.Cost.Avoided()) * u.Cost.Price
		m.Refused += float64(u.Cost.Refused) * u.Cost.Price
	}
	if c != nil {
		c.Money = m
	}
	return c
}

// A Route is a route, a gRPC method or a Guard.
type Route struct {
	Name     string `json:"name"`
	Kind     string `json:"kind"`
	Upstream string `json:"upstream,omitempty"`
	Rates
	InFlight int `json:"in_flight"`
	Stuck    int `json:"stuck,omitempty"`
	// Alone says why its requests share nothing, and Observed what observe mode has found out.
	Alone    []console.Alone   `json:"alone,omitempty"`
	Observed *console.Observed `json:"observed,omitempty"`
}

// A Server is a server of an upstream.
type Server struct {
	Upstream string `json:"upstream"`
	URL      string `json:"url"`
	State    string `json:"state"` // "healthy", "ejected", "unhealthy" or "penalized"
	InFlight int    `json:"in_flight"`
}

// A Limit is a limiter.
type Limit struct {
	Name   string  `json:"name"`
	Kind   string  `json:"kind"`
	Limit  float64 `json:"limit"`
	InUse  int     `json:"in_use"`
	Queued int     `json:"queued"`
}

// A Queue is a queue of jobs.
type Queue struct {
	Name    string `json:"name"`
	Waiting int    `json:"waiting"`
	Taken   int    `json:"taken"`
	Dead    int    `json:"dead"`
	Paused  bool   `json:"paused,omitempty"`
}

// number is a number that can be unknown.
type number float64

func (n number) MarshalJSON() ([]byte, error) {
	if v := float64(n); math.IsNaN(v) || math.IsInf(v, 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// A Model keeps what the console has sent. It is not safe for concurrent use.
type Model struct {
	title    string
	interval time.Duration
	now      console.Snapshot
	found    []console.Incident
	total    []console.Point
	units    map[string][]console.Point
}

// Hello takes the console's first event.
func (m *Model) Hello(h *console.Hello) {
	*m = Model{title: h.Title, interval: h.Interval, now: h.Snapshot, found: h.Incidents, units: map[string][]console.Point{}}
	m.total = points(h.Total, m.points())
	for name, s := range h.Units {
		m.units[name] = points(s, m.points())
	}
}

// Tick takes one of the events that follow.
func (m *Model) Tick(t *console.Tick) {
	m.now, m.found = t.Snapshot, t.Incidents
	m.total = last(append(m.total, t.Total), m.points())
	for name := range m.units {
		if _, there := t.Units[name]; !there {
			delete(m.units, name)
		}
	}
	for name, p := range t.Units {
		m.units[name] = last(append(m.units[name], p), m.points())
	}
}

// points returns how many points "now" has.
func (m *Model) points() int {
	return max(2, int(math.Round(float64(present)/float64(max(m.interval, 1)))))
}

func last(all []console.Point, n int) []console.Point {
	return slices.Clone(all[max(0, len(all)-n):])
}

// points returns the last n points of a series.
func points(s console.Series, n int) []console.Point {
	size := len(s["t"])
	var all []console.Point
	for i := max(0, size-n); i < size; i++ {
		p := console.Point{}
		for name, column := range s {
			if i < len(column) {
				p[name] = column[i]
			}
		}
		all = append(all, p)
	}
	return all
}

// Overview returns the current state.
func (m *Model) Overview() Overview {
	s := m.now
	o := Overview{
		At: s.At, Title: m.title, Version: s.Process.Version, State: s.Process.State, Incidents: m.incidents(), Routes: []Route{}, Budgets: s.Budgets,
		Up: s.At.Sub(s.Process.Started).Seconds(),
	}
	timed, counted := "call", s.Unrouted != nil
	for _, u := range s.Units {
		if u.Kind != "guard" {
			timed = "request"
		}
		counted = counted || u.Responses != nil
	}
	o.Total = rates(m.total, timed, counted)
	o.Cost = costs(s.Units)
	for _, u := range s.Units {
		of := "call"
		if u.Kind != "guard" {
			of = "request"
		}
		o.Routes = append(o.Routes, Route{
			Name: u.Name, Kind: u.Kind, Upstream: u.Upstream, Rates: rates(m.units[u.Name], of, u.Responses != nil),
			InFlight: u.Running, Stuck: u.Stuck, Alone: u.Alone, Observed: u.Observed,
		})
	}
	slices.SortStableFunc(o.Routes, func(a, b Route) int {
		if a.Requests != b.Requests {
			return int(math.Copysign(1, b.Requests-a.Requests))
		}
		return strings.Compare(a.Name, b.Name)
	})
	for _, one := range s.Servers {
		state := "healthy"
		switch {
		case one.Ejected:
			state = "ejected"
		case !one.Healthy:
			state = "unhealthy"
		case one.Penalized():
			state = "penalized"
		}
		o.Servers = append(o.Servers, Server{one.Upstream, one.URL, state, one.InFlight})
	}
	for _, l := range s.Limits {
		o.Limits = append(o.Limits, Limit{l.Name, l.Kind, l.Limit, l.InUse, l.Queued})
	}
	for _, q := range s.Queues {
		o.Queues = append(o.Queues, Queue{q.Name, q.Waiting, q.Running, q.Dead, q.Paused})
	}
	return o
}

// incidents returns what the console has found. One that does not send it is of an older version.
func (m *Model) incidents() []console.Incident {
	if m.found == nil {
		return []console.Incident{{Key: "version", Level: "note", Subject: "weir top", Text: "this proxy is of an older version, which does not send its incidents.", Next: "Open its console."}}
	}
	return m.found
}

// classes are the classes of responses, in order.
var classes = []string{"1xx", "2xx", "3xx", "4xx", "5xx", "broken"}

// avoided are the columns of requests that were answered without a call of their own, and
// ended those of the others.
var avoided, ended = []string{"hits", "stale", "negative", "failures", "joined", "fleet"}, []string{"validated", "missed", "unanswered", "refused", "refused_client", "too_large"}

// refusals are what can refuse requests, as in the console: a column, and the columns of which it is
// the sum.
var refusals = []struct {
	name, column string
	less         []string
	text         string
}{
	{"limit", "refused", []string{"refused_budget", "refused_paused", "refused_unreachable"}, "by a limit"},
	{"budget", "refused_budget", nil, "by a budget"},
	{"paused", "refused_paused", nil, "because the source asked for a pause"},
	{"unreachable", "refused_unreachable", nil, "because a limit of the fleet is unreachable"},
	{"client", "refused_client", []string{"refused_client_budget"}, "over the rate of a client"},
	{"client_budget", "refused_client_budget", nil, "over the budget of a client"},
	{"too_large", "too_large", nil, "too large for a budget"},
}

// rates returns the means of points. of is what is timed.
func rates(all []console.Point, of string, counted bool) Rates {
	m := func(name string) float64 { return mean(all, name) }
	r := Rates{
		Requests: m("requests"), Calls: m("calls"), Failed: m("failed"), Refused: m("refused"), OverRate: m("refused_client"), TooLarge: m("too_large"), RefusedBy: map[string]float64{},
		CostSpent: m("cost_spent"), CostAvoided: m("cost_avoided"), CostRefused: m("cost_refused"),
		Stale: m("stale_on_error"), P50: latest(all, of+"_p50"), P99: latest(all, of+"_p99"), Errors: number(math.NaN()), Saved: number(math.NaN()), WouldSave: number(math.NaN()),
	}
	for _, by := range refusals {
		n := m(by.column)
		for _, part := range by.less {
			n -= m(part)
		}
		if n > 0 {
			r.RefusedBy[by.name] = n
		}
	}
	saved, sum := 0.0, 0.0
	for _, name := range avoided {
		saved += m(name)
	}
	for _, name := range ended {
		sum += m(name)
	}
	if sum += saved; sum > 0 {
		r.Saved = number(min(saved/sum, 1))
		r.WouldSave = number(min(m("observed")/sum, 1))
	}
	if !counted {
		return r
	}
	r.Responses = map[string]float64{"left": m("http_left")}
	for _, class := range classes {
		r.Responses[class] = m("http_" + class)
		r.Received += r.Responses[class]
	}
	if r.Received > 0 {
		r.Errors = number((r.Responses["5xx"] + r.Responses["broken"]) / r.Received)
	}
	return r
}

// mean returns the mean of the known values, 0 if there are none.
func mean(all []console.Point, name string) float64 {
	sum, n := 0.0, 0
	for _, p := range all {
		if v, ok := p[name]; ok && !math.IsNaN(v) {
			sum += v
			n++
		}
	}
	if n == 0 {
		return 0
	}
	return sum / float64(n)
}

// latest returns the last known value.
func latest(all []console.Point, name string) number {
	for _, p := range slices.Backward(all) {
		if v, ok := p[name]; ok && !math.IsNaN(v) {
			return number(v)
		}
	}
	return number(math.NaN())
}
