package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/weir-go/weir/app/figures"
	"github.com/weir-go/weir/console"
)

// incidents returns what needs attention, the worst first: one for each cause. The
// console has the same causes, with more rules about how long they last.
func incidents(o Overview, s console.Snapshot) []Incident {
	var all []Incident
	say := func(level, subject, format string, args ...any) {
		all = append(all, Incident{level, subject, fmt.Sprintf(format, args...)})
	}
	for _, g := range groups(o) {
		switch {
		case g.down():
			say("bad", g.name, "%s; %s", g.fault(), instead(g, o.Total))
		case g.stuck > 0:
			say("bad", g.name, "%d calls are stuck: abandoned long ago, but still running", g.stuck)
		case g.refused > 0 && g.refused >= 0.005*g.requests:
			level := "warn"
			if g.refused >= 0.1*g.requests {
				level = "bad"
			}
			say(level, g.name, "%s/s are refused with 503 because the limit is reached", rate(g.refused))
		case g.out > 0:
			say("warn", g.name, "%d of %d servers are ejected or fail their checks", g.out, g.servers)
		case g.calls > 0 && g.failed >= 0.05*g.calls:
			say("warn", g.name, "%s of calls fail; %s", percent(number(g.failed/g.calls)), instead(g, o.Total))
		case g.stale > 0:
			say("warn", g.name, "stale responses are served instead of errors, %s/s", rate(g.stale))
		}
	}
	if s.Tier != nil && s.Tier.Open {
		say("warn", "fleet", "the shared store does not respond; this instance works alone")
	}
	if s.Process.State != "" && s.Process.State != "ready" {
		say("warn", "process", "/readyz answers 503: %s", s.Process.State)
	}
	if o.Total.OverRate > 0 {
		say("note", "clients", "%s/s get 429 because they exceed their rate", rate(o.Total.OverRate))
	}
	for _, u := range s.Units {
		if u.Apart != nil {
			say("note", u.Name, "%s %s", u.Apart.Text, u.Apart.Next)
		}
	}
	dead := 0
	for _, q := range o.Queues {
		dead += q.Dead
		if q.Paused {
			say("warn", "jobs", "%s is paused, %s waiting: weir jobs resume %s", q.Name, figures.Count(int64(q.Waiting)), q.Name)
		}
	}
	if dead > 0 {
		say("note", "jobs", "%d are dead: weir jobs dead", dead)
	}
	rank := map[string]int{"bad": 0, "warn": 1, "note": 2}
	slices.SortStableFunc(all, func(a, b Incident) int { return rank[a.Level] - rank[b.Level] })
	return all
}

// A group is an upstream with its routes and servers, or a Guard.
type group struct {
	name                                            string
	requests, calls, failed, refused, stale, errors float64
	stuck, servers, out                             int
}

func groups(o Overview) []*group {
	byName := map[string]*group{}
	get := func(name string) *group {
		if byName[name] == nil {
			byName[name] = &group{name: name}
		}
		return byName[name]
	}
	for _, r := range o.Routes {
		g := get(cmp.Or(r.Upstream, r.Name))
		g.requests += r.Requests
		g.calls += r.Calls
		g.failed += r.Failed
		g.refused += r.Refused
		g.stale += r.Stale
		g.errors += r.Responses["5xx"] + r.Responses["broken"]
		g.stuck += r.Stuck
	}
	for _, s := range o.Servers {
		g := get(s.Upstream)
		g.servers++
		if s.State == "ejected" || s.State == "unhealthy" {
			g.out++
		}
	}
	var all []*group
	for _, g := range byName {
		all = append(all, g)
	}
	slices.SortFunc(all, func(a, b *group) int { return strings.Compare(a.name, b.name) })
	return all
}

func (g *group) down() bool {
	return g.servers > 0 && g.out == g.servers || g.calls > 0 && g.failed >= 0.5*g.calls
}

func (g *group) fault() string {
	var faults []string
	if g.calls > 0 && g.failed >= 0.5*g.calls {
		faults = append(faults, percent(number(min(g.failed/g.calls, 1)))+" of calls fail")
	}
	if g.out > 0 {
		faults = append(faults, fmt.Sprintf("%d of %d servers are ejected or fail their checks", g.out, g.servers))
	}
	return strings.Join(faults, ", ")
}

// instead says what clients get.
func instead(g *group, total Rates) string {
	var gets []string
	if g.errors > 0 && total.Received > 0 {
		gets = append(gets, fmt.Sprintf("clients get errors, %s/s, %s of all responses", rate(g.errors), percent(number(min(g.errors/total.Received, 1)))))
	}
	if g.stale > 0 {
		gets = append(gets, fmt.Sprintf("stale responses, %s/s", rate(g.stale)))
	}
	if len(gets) == 0 {
		return "there is no stale response to serve instead"
	}
	return strings.Join(gets, ", and ")
}
