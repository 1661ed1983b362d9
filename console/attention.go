package console

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// An Incident is what an operator should see first. This package alone decides what is one, for the
// web page and for programs that read the event stream, such as weir top. One incident is one
// finding, however many units it affects: a service that is down fails calls, ejects servers, fills
// queues and refuses requests.
type Incident struct {
	Key     string   `json:"key"`               // stays the same while the incident lasts
	Level   string   `json:"level"`             // "bad", "warn" or "note"
	Subject string   `json:"subject"`           // the unit or part that it is about
	Text    string   `json:"text"`              // one sentence that says what happens
	Next    string   `json:"next,omitempty"`    // what to do
	Badge   string   `json:"badge"`             // in a word or two
	Units   []string `json:"units,omitempty"`   // the units that it affects
	Sources []string `json:"sources,omitempty"` // the upstreams or limits that it is about
	Page    string   `json:"page,omitempty"`    // of the console, if it is not that of the unit
}

// The levels of an Incident.
const (
	levelBad  = "bad"
	levelWarn = "warn"
	levelNote = "note"
)

const (
	// present is how long "now" is. All numbers of a page are from the same time, because they
	// would otherwise contradict each other.
	present = 10 * time.Second
	// longestPresent is how many times longer rare calls are looked at.
	longestPresent = 6
	// mentioned is for how long a server that is back is mentioned.
	mentioned    = 10 * time.Minute
	fewCalls     = 5    // fewer are not significant
	mostNamed    = 3    // names in a sentence
	longestError = 300  // characters of an error in a sentence
	someRefused  = .005 // of the requests: fewer are not an incident
	manyRefused  = .1   // of the requests: the clients suffer
	nearlyFull   = .9   // of the store of Idempotency-Keys, which evicts nothing
	full         = .99  // of it: new keys are refused, or soon will be
	aFew         = 1.9  // events in the present: two, by a rate that was rounded
)

// A view is what incidents are found in: the current snapshot and the latest rows of each series.
type view struct {
	now      *Snapshot
	interval time.Duration
	times    []float64
	total    *ring
	units    map[string]*ring
	limits   map[string]*ring
	budgets  map[string]*ring
	points   int // in the present
}

// incidents returns the incidents, the worst first. It is never nil.
func (v *view) incidents() []Incident {
	v.points = max(2, int(math.Round(float64(present)/float64(cmp.Or(v.interval, time.Second)))))
	found := slices.Concat(v.process(), v.tier(), v.sources(), v.clients(), v.shares(), v.idempotency(), v.queues())
	rank := map[string]int{levelBad: 0, levelWarn: 1, levelNote: 2}
	slices.SortStableFunc(found, func(a, b Incident) int { return rank[a.Level] - rank[b.Level] })
	return append([]Incident{}, found...)
}

func (v *view) process() []Incident {
	state := v.now.Process.State
	if state == "" || state == "ready" {
		return nil
	}
	i := Incident{Key: "process", Level: levelWarn, Subject: "Process", Badge: "not ready", Text: "/readyz answers 503: " + state + "."}
	if runes := []rune(state); len(runes) > longestError {
		i.Text, i.Next = "/readyz answers 503: "+string(runes[:longestError])+"…", "Read all of it at /readyz, or in the log."
	}
	return []Incident{i}
}

func (v *view) tier() []Incident {
	t := v.now.Tier
	if t == nil || !t.Open {
		return nil
	}
	pending := ""
	if t.Pending > 0 {
		pending = fmt.Sprintf(" %s will be sent again until it has them.", many(t.Pending, "invalidation"))
	}
	return []Incident{{
		Key: "tier", Level: levelWarn, Subject: "Fleet", Badge: "store unreachable", Page: "#/fleet",
		Text: "the shared store does not respond: this instance works independently until it does." + pending,
		Next: "Check Redis, and the network to it. weir keeps trying.",
	}}
}

// clients returns what concerns clients and not the source: rates and budgets that they exceed, and
// errors that no other incident explains.
func (v *view) clients() []Incident {
	var found []Incident
	say := func(what, badge string, over []string, text, next string) {
		subject := "Clients"
		if len(over) == 1 {
			subject = over[0]
		}
		found = append(found, Incident{Key: "clients/" + what, Level: levelNote, Subject: subject, Units: over, Badge: badge, Text: text, Next: next})
	}
	code := "429"
	if onlyRPC(v.now.Units) {
		code = "ResourceExhausted"
	}
	on := func(over []string) string {
		if len(over) < 2 {
			return ""
		}
		return ", on " + words(over[:min(len(over), mostNamed)])
	}
	if over, n := v.over("refused_client", "refused_client_budget"); len(over) > 0 {
		say("rate", "clients over rate", over, fmt.Sprintf("clients that exceed their rate get %s, %s%s. Others are not affected.", code, perSecond(n), on(over)),
			"Nothing, unless the rate is too low for your clients.")
	}
	if over, n := v.over("refused_client_budget"); len(over) > 0 {
		say("budget", "clients over budget", over, fmt.Sprintf("clients that have used up their budget get %s, %s%s%s. Others are not affected.", code, perSecond(n), on(over), v.overNames(over)),
			"Nothing, unless client_budget is too small for your clients: "+v.termsOf("client", over)+".")
	}
	if over, n := v.over("too_large"); len(over) > 0 {
		say("size", "too large for a budget", over, fmt.Sprintf("requests that cost more than a budget ever allows get 413, %s%s. They fail however long their client waits.", perSecond(n), on(over)),
			"Compare the estimate of such a request with burst of the budget: /explain on the admin listener shows it.")
	}
	sum := rateOf(v.total, v.points)
	failing := slices.ContainsFunc(v.now.Units, func(u Unit) bool {
		r := rateOf(v.units[u.Name], v.points)
		return r.get("failed") > 0 || r.get("refused") > 0
	})
	counted := slices.ContainsFunc(v.now.Units, func(u Unit) bool { return u.Responses != nil })
	errors, all := sum.errors(), sum.responses()
	if counted && !failing && all > 0 && errors >= .05*all && errors*float64(v.points) >= 3 {
		found = append(found, Incident{
			Key: "clients/errors", Level: levelBad, Subject: "Clients", Badge: "errors",
			Text: fmt.Sprintf("%s of the responses are errors, %s.", percent(errors/all), perSecond(errors)), Next: "The access log has a line for each of them, with the cause.",
		})
	}
	return found
}

// over returns the units that refuse more than a few requests by a column, less other columns, and
// how many per second.
func (v *view) over(column string, less ...string) (names []string, n float64) {
	for _, u := range v.now.Units {
		r := rateOf(v.units[u.Name], v.points)
		by := r.get(column)
		for _, part := range less {
			by -= r.get(part)
		}
		if by*float64(v.points) < aFew || by < someRefused*max(r.get("requests"), by) {
			continue
		}
		names = append(names, u.Name)
		n += by
	}
	return names, n
}

// shares returns the routes that observe, and those whose requests share nothing although the
// configuration or the service can change that. The Source writes the sentences.
func (v *view) shares() []Incident {
	var found []Incident
	for _, u := range v.now.Units {
		say := func(what, badge, text, next string) {
			found = append(found, Incident{Key: "unit/" + u.Name + "/" + what, Level: levelNote, Subject: u.Name, Units: []string{u.Name}, Badge: badge, Text: text, Next: next})
		}
		if f := u.Fallback; f != nil {
			if n := rateOf(v.units[u.Name], v.points).get("fell_back"); n*float64(v.points) >= aFew {
				found = append(found, Incident{
					Key: "unit/" + u.Name + "/fallback", Level: levelWarn, Subject: u.Name, Units: []string{u.Name}, Badge: "on fallback",
					Text: fmt.Sprintf("requests to which upstream %s does not respond go to upstream %s, %s.", f.Own, f.Upstream, perSecond(n)),
					Next: "Look at the servers of upstream " + f.Own + ". The access log has the reason of each request (fallback_reason).",
				})
			}
		}
		if u.Observed != nil {
			say("observed", "observing", u.Observed.Text, u.Observed.Next)
		}
		for _, a := range u.Alone {
			if a.Advise {
				say("alone", "shares little", a.Text, a.Next)
				break // the most frequent one
			}
		}
	}
	return found
}

// queues returns the incidents of all queues of jobs: one for each kind of trouble.
// idempotency returns what concerns calls with an Idempotency-Key.
func (v *view) idempotency() []Incident {
	var found []Incident
	i := v.now.Idempotency
	if i == nil {
		return nil
	}
	say := func(level, what, badge, text, next string) {
		found = append(found, Incident{Key: "idempotency/" + what, Level: level, Subject: "Idempotency keys", Page: "#/idempotency", Badge: badge, Text: text, Next: next})
	}
	if used := i.used(); used >= nearlyFull {
		level := levelWarn
		if used >= full {
			level = levelBad
		}
		say(level, "full", "store full", fmt.Sprintf("%s of the store is in use. Requests with a new key get 503 when it is full.", percent(used)),
			"Raise idempotency.size or idempotency.keys, or lower ttl of the routes.")
	}
	if i.Unknown > 0 {
		say(levelWarn, "unknown", "unknown outcome", fmt.Sprintf("it is unknown whether %s took effect.", many(i.Unknown, "call")),
			"Look in the service, and settle each as done or not done. With unknown: refuse, clients get 409 until then.")
	}
	return found
}

func (v *view) queues() []Incident {
	var found []Incident
	say := func(level, what, badge, page, text, next string) {
		found = append(found, Incident{Key: "jobs/" + what, Level: level, Subject: "Jobs", Page: page, Badge: badge, Text: text, Next: next})
	}
	var paused, dead, idle, served []Queue
	for _, q := range v.now.Queues {
		switch o := q.Orphan; {
		case o != nil:
			var counts []string
			for _, c := range []struct {
				n    int
				name string
			}{{o.Queued, "queued"}, {o.Started, "started"}, {o.Dead, "dead"}, {o.Finished, "finished"}} {
				if c.n > 0 {
					counts = append(counts, fmt.Sprintf("%d %s", c.n, c.name))
				}
			}
			level := levelNote
			if o.Queued+o.Started > 0 {
				level = levelWarn
			}
			say(level, "orphan/"+q.Name, "no route", "#/jobs", fmt.Sprintf("no route serves the jobs of %s (%s): they do not run, and clients get 404 for them.", q.Name, strings.Join(counts, ", ")),
				fmt.Sprintf("A route with %s takes them over.", o.Setting))
		default:
			served = append(served, q)
		}
		if q.Paused {
			paused = append(paused, q)
		}
	}
	if len(paused) > 0 {
		waiting, is, its := 0, "are", "their"
		for _, q := range paused {
			waiting += q.Waiting
		}
		if len(paused) == 1 {
			is, its = "is", "its"
		}
		var resume []string
		for _, q := range paused[:min(len(paused), mostNamed)] {
			resume = append(resume, "“weir jobs resume "+q.Name+"”")
		}
		say(levelWarn, "paused", "paused", "#/jobs", fmt.Sprintf("%s %s paused: none of %s jobs starts, and %s %s waiting.", queueNames(paused), is, its, many(waiting, "job"), verb(waiting)),
			"Once the reason for the pause is gone: "+words(resume)+".")
	}
	for _, q := range served {
		if q.Dead > 0 {
			dead = append(dead, q)
		}
		if !q.Paused && q.Waiting > 0 && q.Age > time.Minute && q.Running == 0 {
			idle = append(idle, q)
		}
	}
	if len(dead) > 0 {
		n := 0
		for _, q := range dead {
			n += q.Dead
		}
		say(levelNote, "dead", "dead jobs", "#/jobs?state=dead", fmt.Sprintf("%s of %s %s dead: out of attempts.", many(n, "job"), queueNames(dead), verb(n)),
			"Read the error, and retry what can succeed now: weir jobs dead.")
	}
	if len(idle) > 0 {
		n, oldest := 0, time.Duration(0)
		for _, q := range idle {
			n, oldest = n+q.Waiting, max(oldest, q.Age)
		}
		say(levelWarn, "idle", "no worker", "#/jobs", fmt.Sprintf("%s of %s waiting, the oldest for %s, and none running.", many(n, "job"), queueNames(idle), age(oldest.Seconds())),
			"Is a worker running, and does it reach the store?")
	}
	return found
}

func queueNames(all []Queue) string {
	var names []string
	for _, q := range all {
		names = append(names, q.Name)
	}
	if len(names) > mostNamed {
		names = append(names[:mostNamed:mostNamed], many(len(names)-mostNamed, "more queue"))
	}
	return words(names)
}

// onlyRPC reports whether units receive gRPC calls only.
func onlyRPC(units []Unit) bool {
	rpc := false
	for _, u := range units {
		if u.Kind == "route" {
			return false
		}
		rpc = rpc || u.Kind == "method"
	}
	return rpc
}

// A rates has the means of the latest rows of a series.
type rates struct {
	g *ring
	n int
}

func rateOf(g *ring, n int) rates { return rates{g, n} }

// get returns the mean of a column of units, 0 if it is not known.
func (r rates) get(column string) float64 { return r.g.mean(unitIndex[column], r.n) }

func (r rates) errors() float64 { return r.get("http_5xx") + r.get("http_broken") }

func (r rates) responses() float64 {
	return r.get("http_1xx") + r.get("http_2xx") + r.get("http_3xx") + r.get("http_4xx") + r.errors()
}
