package console

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// A group is everything that depends on one source: an upstream, a limiter that Guards share, or the
// source of one Guard.
type group struct {
	key, name string
	units     []Unit
	servers   []Server
	limits    []Limit
}

func (g *group) unitNames() []string {
	names := make([]string, 0, len(g.units))
	for _, u := range g.units {
		names = append(names, u.Name)
	}
	return names
}

// groups returns the groups in the order of their first parts.
func (v *view) groups() []*group {
	var all []*group
	byKey := map[string]*group{}
	get := func(key, name string) *group {
		if byKey[key] == nil {
			byKey[key] = &group{key: key, name: name}
			all = append(all, byKey[key])
		}
		return byKey[key]
	}
	for _, u := range v.now.Units {
		key, name := "unit/"+u.Name, u.Name
		if of := firstOf(u.Upstream, u.Limit); of != "" {
			key, name = "of/"+of, of
		}
		g := get(key, name)
		g.units = append(g.units, u)
	}
	for _, s := range v.now.Servers {
		g := get("of/"+s.Upstream, s.Upstream)
		g.servers = append(g.servers, s)
	}
	for _, l := range v.now.Limits {
		g := get("of/"+l.Name, l.Name)
		g.limits = append(g.limits, l)
	}
	return all
}

func firstOf(names ...string) string {
	for _, name := range names {
		if name != "" {
			return name
		}
	}
	return ""
}

// A state is what is known about a group now. Numbers are per second where nothing else is said.
type state struct {
	calls, failed, failures, share float64 // share is failed of calls, and failures are a number
	stale, requests, errors        float64
	responses                      float64 // of all units, as in the headline of the page
	refused                        float64 // with 503, by whatever
	limit, budget, paused, fleet   float64 // parts of refused
	stuck                          int
	failing                        []string // units whose calls fail
	refusing                       bool     // more than a few
	when                           string   // "fail", or since when they failed
	since                          float64  // for how many seconds most calls have failed; NaN if that is not known
	out                            []Server // ejected, or failing their checks
	penalized                      []Server // others that get no more than one call at a time
	down                           bool
	queue                          *Limit // does not drain
	queued                         int    // its mean length
	overloaded                     bool
	storm                          *Limit // one that is lowered because calls end too late
}

// sources returns the incidents of everything behind weir.
func (v *view) sources() []Incident {
	var found []Incident
	var down []*group
	var states []state
	for _, g := range v.groups() {
		s := v.look(g)
		if s.down {
			down, states = append(down, g), append(states, s)
			continue
		}
		found = append(found, v.troubles(g, s)...)
	}
	switch len(down) {
	case 0:
	case 1:
		found = append(found, oneDown(down[0], states[0]))
	default:
		found = append(found, severalDown(down, states))
	}
	return found
}

func (v *view) look(g *group) state {
	s := state{since: math.NaN(), responses: rateOf(v.total, v.points).responses()}
	for _, u := range g.units {
		series := v.units[u.Name]
		r := rateOf(series, v.points)
		f := v.failuresOf(series)
		s.calls += f.calls
		s.failed += f.failed
		s.failures += f.failures
		s.stale += r.get("stale_on_error")
		s.requests += r.get("requests")
		s.errors += r.errors()
		s.stuck += u.Stuck
		s.refused += r.get("refused")
		s.budget += r.get("refused_budget")
		s.paused += r.get("refused_paused")
		s.fleet += r.get("refused_unreachable")
		if f.calls > 0 && f.failed >= .5*f.calls && f.failures >= aFew {
			s.failing = append(s.failing, u.Name)
			s.when = firstOf(s.when, f.when)
			if since := v.began(series); !(s.since >= since) {
				s.since = since
			}
		}
		s.refusing = s.refusing || r.get("refused")*float64(v.points) >= aFew
	}
	s.limit = max(0, s.refused-s.budget-s.paused-s.fleet)
	for _, one := range g.servers {
		switch {
		case one.Ejected || !one.Healthy:
			s.out = append(s.out, one)
		case one.Penalized():
			s.penalized = append(s.penalized, one)
		}
	}
	if s.calls > 0 {
		s.share = s.failed / s.calls
	}
	s.down = len(g.servers) > 0 && len(s.out) == len(g.servers) || len(s.failing) > 0 && (s.share >= .5 || len(g.units) == 1)
	for i := range g.limits {
		l := &g.limits[i]
		series, queued := v.limits[l.Name], slices.Index(limitColumns[:], "queued")
		n := min(v.points, series.len())
		stands := n >= min(5, v.points) && l.Queued > 0
		for back := range n {
			stands = stands && series.at(back, queued) > 0
		}
		if stands {
			s.queue, s.queued = l, int(math.Round(series.mean(queued, v.points)))
		}
		s.overloaded = s.overloaded || l.Overloaded
		if l.Storm {
			s.storm = l
		}
	}
	return s
}

// failures are the calls that have failed lately.
type failures struct {
	calls, failed float64 // per second
	failures      float64 // how many
	when          string
}

// failuresOf returns the recent failures. With few calls, it looks further back: a source that is
// called every ten seconds can be down too.
func (v *view) failuresOf(series *ring) failures {
	n := v.points
	r := rateOf(series, n)
	for r.get("calls")*float64(min(n, series.len())) < fewCalls && n < v.points*longestPresent {
		n += v.points
		r = rateOf(series, n)
	}
	f := failures{calls: r.get("calls"), failed: r.get("failed"), when: "fail"}
	f.failures = f.failed * float64(min(n, series.len()))
	if n != v.points {
		f.when = "failed in the last " + age(float64(n)*v.interval.Seconds())
	}
	return f
}

// began returns for how many seconds most calls have failed without a pause, NaN if they have not.
func (v *view) began(series *ring) float64 {
	start := math.NaN()
	last := len(v.times) - 1
	for back := range min(series.len(), len(v.times)) {
		calls, failed := series.at(back, unitIndex["calls"]), series.at(back, unitIndex["failed"])
		if !(calls > 0) {
			continue
		}
		if failed/calls < .5 {
			break
		}
		start = v.times[last] - v.times[last-back]
	}
	return start
}

func oneDown(g *group, s state) Incident {
	calls := "all"
	if s.share < .9995 {
		calls = percent(s.share) + " of"
	}
	text := fmt.Sprintf("%s calls to the source %s", calls, firstOf(s.when, "fail"))
	switch n := len(g.servers); {
	case n > 0 && len(s.failing) == 0:
		text = noServer(n)
	case n == 1 && len(s.out) == 1:
		text += ", and its only server is ejected or fails its checks"
	case n > 0 && len(s.out) > 0:
		text += fmt.Sprintf(", and %d of %d servers are ejected or fail their checks", len(s.out), n)
	}
	if s.since > 20 {
		text += ", for " + age(s.since)
	}
	return Incident{
		Key: g.key + "/down", Level: levelBad, Subject: g.name, Units: g.unitNames(), Sources: []string{g.name}, Badge: badgeDown,
		Text: text + "; " + instead(s) + ".", Next: nextOf(g, s),
	}
}

const badgeDown = "source failing"

func noServer(n int) string {
	if n == 1 {
		return "its only server is ejected or fails its checks"
	}
	return fmt.Sprintf("all %d servers are ejected or fail their checks", n)
}

func severalDown(down []*group, states []state) Incident {
	i := Incident{
		Key: "down", Level: levelBad, Subject: "Sources", Badge: badgeDown,
		Next: "Look first at what they share: a host, a network, DNS, or a database. Then check each of them from this machine.",
	}
	sum := state{responses: states[0].responses}
	for k, g := range down {
		i.Units = append(i.Units, g.unitNames()...)
		i.Sources = append(i.Sources, g.name)
		sum.stale += states[k].stale
		sum.errors += states[k].errors
	}
	shown := slices.Sorted(slices.Values(i.Sources))
	if len(shown) > mostNamed {
		shown = append(shown[:mostNamed:mostNamed], fmt.Sprintf("%d more", len(shown)-mostNamed))
	}
	i.Text = fmt.Sprintf("%d are down at the same time, %s; %s.", len(down), words(shown), instead(sum))
	return i
}

// instead says what clients get meanwhile.
func instead(s state) string {
	var gets []string
	if s.responses > 0 && s.errors > 0 {
		gets = append(gets, fmt.Sprintf("clients get errors, %s, which is %s of all responses", perSecond(s.errors), percent(min(1, s.errors/s.responses))))
	}
	if s.stale > 0 {
		gets = append(gets, "stale responses are served instead, "+perSecond(s.stale))
	}
	if len(gets) == 0 {
		return "there is no stale response to serve instead"
	}
	return strings.Join(gets, ", and ")
}

func nextOf(g *group, s state) string {
	if len(g.servers) == 0 {
		return "Check the source itself; the error of a load is in the log of this program."
	}
	one := g.servers[0].URL
	if len(s.out) > 0 {
		one = s.out[0].URL
	}
	if len(g.servers) > 1 {
		one = "the servers, such as " + one + ","
	}
	return fmt.Sprintf("Check %s from this machine: “weir proxy check --connect” with this configuration, and their own log. weir keeps trying them.", one)
}

// troubles returns the incidents of a group that is not down.
func (v *view) troubles(g *group, s state) []Incident {
	var found []Incident
	say := func(level, what, badge, text, next string) {
		found = append(found, Incident{
			Key: g.key + "/" + what, Level: level, Subject: g.name, Units: g.unitNames(), Sources: []string{g.name}, Badge: badge, Text: text, Next: next,
		})
	}
	if s.stuck > 0 {
		say(levelBad, "stuck", "stuck", fmt.Sprintf("%s to the source %s stuck: abandoned long ago, but still running.", many(s.stuck, "call"), verb(s.stuck)),
			"Find the call in a goroutine profile, and give it a timeout.")
	}
	if s.storm != nil {
		say(levelBad, "storm", "retry storm", fmt.Sprintf("most calls ended after their clients had left, so the limit is lowered to %s.", many(int(s.storm.Limit), "call")),
			"Nothing, if it ends within a minute. Otherwise the source is slower than its clients wait: look at its latency, and for clients that retry without a backoff.")
	}
	refused := v.refusals(g, s, say)
	switch {
	case refused:
	case s.queue != nil:
		say(levelWarn, "queue", "standing queue", fmt.Sprintf("a queue of %s is not draining%s.", many(s.queued, "call"), waitOf(s.queue)),
			"If it lasts, requests will be refused. Is there more traffic, or is the source slower?")
	case s.overloaded:
		say(levelWarn, "overloaded", "overloaded", "the source is slower than it should be, so the limit is kept low.", "Look at the latency of the source: the limit rises again with it.")
	}
	switch {
	case len(s.failing) > 0:
		say(levelBad, "failing", badgeDown, fmt.Sprintf("most calls of %s %s; %s.", words(s.failing[:min(len(s.failing), mostNamed)]), s.when, instead(s)), nextOf(g, s))
	case len(s.out) > 0:
		are := "are ejected or fail their checks"
		if len(s.out) == 1 {
			are = "is ejected or fails its checks"
		}
		say(levelWarn, "servers", "servers out", fmt.Sprintf("%d of %d servers %s%s; the others take its calls.", len(s.out), len(g.servers), are, whyOut(s.out)), nextOf(g, s))
	case s.share >= .05 && s.failures >= 2.9:
		next := "The access log has a line for each failed request, with the cause."
		if onlyRPC(g.units) {
			next = "The traces of its executions have the codes as error.type."
		}
		say(levelWarn, "failing", "calls fail", fmt.Sprintf("%s of calls to the source fail; %s.", percent(s.share), instead(s)), next)
	case s.stale > 0 && len(found) == 0:
		say(levelWarn, "stale", "stale on error", fmt.Sprintf("stale responses are served instead of errors or long waits, %s.", perSecond(s.stale)), "Look at the failures and the latency of the source.")
	}
	if n := len(s.penalized); n > 0 {
		say(levelWarn, "penalized", "server penalized", fmt.Sprintf("%d of %d servers %s penalized%s; the others take the calls.", n, len(g.servers), verb(n), whyOut(s.penalized)),
			"It responds, but worse than the others do on the same route: compare its version, its configuration and its log with theirs. weir tries it with one call at a time.")
	}
	return append(found, v.returned(g)...)
}

// refusals says what refuses the requests of a group with 503, one incident for each cause, because
// each has another remedy.
func (v *view) refusals(g *group, s state, say func(level, what, badge, text, next string)) bool {
	all := max(s.requests, s.refused)
	if !s.refusing || s.refused < someRefused*all {
		return false
	}
	with := " with 503"
	if onlyRPC(g.units) {
		with = ""
	}
	for _, by := range []struct {
		n                 float64
		what, badge       string
		because, and, say string
	}{
		{s.limit, "refused", "refusing", "because the limit on concurrent calls is reached", v.queueOf(s),
			"Is there more traffic, or is the source slower? The chart of the limit shows it against the latency. Raise the limit only if the source has room."},
		{s.budget, "budget", "over budget", "because the budget is used up", v.budgetOf(g), v.raiseBudget(g)},
		{s.paused, "paused", "source paused", "because the source has asked for a pause, or stated that nothing is left", "",
			"The source allows no more: look at its quota. max_pause bounds for how long weir obeys."},
		{s.fleet, "unreachable", "limit unreachable", "because a limit of the fleet cannot be reached", "",
			"Check Redis, and the network to it. fleet.rate_failure decides what happens meanwhile: open, closed or local_share."},
	} {
		if by.n < someRefused*all || by.n*float64(v.points) < aFew {
			continue
		}
		level := levelWarn
		if by.n >= manyRefused*all {
			level = levelBad
		}
		say(level, by.what, by.badge, fmt.Sprintf("%s of requests are refused%s %s, %s%s.", percent(by.n/all), with, by.because, perSecond(by.n), by.and), by.say)
	}
	return true
}

func (v *view) queueOf(s state) string {
	if s.queue == nil {
		return ""
	}
	return fmt.Sprintf("; %s %s queued%s", many(s.queued, "call"), verb(s.queued), waitOf(s.queue))
}

func waitOf(l *Limit) string {
	if l.Limit <= 0 || l.Held <= 0 || l.Kind == "rate" {
		return ""
	}
	return ", which means a wait of about " + duration(float64(l.Queued)/l.Limit*l.Held.Seconds())
}

// verb is for n things.
func verb(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// refusingBudgets returns the budgets of a group that refuse calls now: that of the upstream, and
// those of its routes.
func (v *view) refusingBudgets(g *group) []Budget {
	var all []Budget
	for _, b := range v.now.Budgets {
		mine := b.Kind == "upstream" && b.Name == g.name || b.Kind == "route" && slices.Contains(g.unitNames(), b.Name)
		if mine && v.budgets[b.key()].mean(slices.Index(budgetColumns[:], "refused"), v.points) > 0 {
			all = append(all, b)
		}
	}
	return all
}

// budgetOf describes the budgets that refuse, and which unit spends most.
func (v *view) budgetOf(g *group) string {
	var parts []string
	for _, b := range v.refusingBudgets(g) {
		left := fmt.Sprintf("has %s of %s units left", count(int(b.Left)), count(b.Burst))
		if b.Left <= -1 {
			left = fmt.Sprintf("owes %s, of %s", many(int(-b.Left), "unit"), count(b.Burst))
		}
		parts = append(parts, fmt.Sprintf("; that of the %s %s, and refills at %s", b.Kind+" "+b.Name, left, b.Pace()))
	}
	top, most, sum := "", 0.0, 0.0
	for _, u := range g.units {
		spent := rateOf(v.units[u.Name], v.units[u.Name].len()).get("cost_spent") // in all of the history: a budget is spent in minutes
		sum += spent
		if spent > most {
			top, most = u.Name, spent
		}
	}
	if len(g.units) > 1 && most > 0 {
		parts = append(parts, fmt.Sprintf("; %s has spent most, %s", top, percent(most/sum)))
	}
	return strings.Join(parts, "")
}

func (v *view) raiseBudget(g *group) string {
	next := "Raise budget.units only if the source allows more. A client_budget keeps one client from using up the budget of all."
	for _, b := range v.now.Budgets {
		if b.Kind == "client" && slices.Contains(g.unitNames(), b.Name) {
			return "Raise budget.units only if the source allows more, or lower client_budget, so that fewer clients use up the budget of all."
		}
	}
	return next
}

// termsOf describes the budgets of that kind, for the first of units.
func (v *view) termsOf(kind string, units []string) string {
	for _, b := range v.now.Budgets {
		if b.Kind == kind && slices.Contains(units, b.Name) {
			return fmt.Sprintf("each has %s, which refill at %s", many(b.Burst, "unit"), b.Pace())
		}
	}
	return "each has what the configuration gives it"
}

// overNames names the clients that are refused most, "" if that is not known.
func (v *view) overNames(units []string) string {
	var names []string
	for _, b := range v.now.Budgets {
		if b.Kind != "client" || !slices.Contains(units, b.Name) {
			continue
		}
		for _, c := range b.Over {
			if len(names) < mostNamed && c.Share >= .05 {
				names = append(names, fmt.Sprintf("%s (%s)", c.Address, percent(c.Share)))
			}
		}
	}
	if len(names) == 0 {
		return ""
	}
	return ", most to " + words(names)
}

// whyOut says why the first of servers is out, "" if that is not known.
func whyOut(out []Server) string {
	for _, s := range out {
		if s.Reason != "" {
			return fmt.Sprintf(": %s since %s, because %s", s.URL, clock(s.Left), s.Reason)
		}
	}
	return ""
}

// returned returns the servers that were out lately and are back, which an operator may ask about.
func (v *view) returned(g *group) []Incident {
	var found []Incident
	for _, s := range g.servers {
		if s.Ejected || !s.Healthy || s.Penalized() || s.Returned.IsZero() || v.now.At.Sub(s.Returned) > mentioned {
			continue
		}
		found = append(found, Incident{
			Key: g.key + "/returned/" + s.URL, Level: levelNote, Subject: g.name, Units: g.unitNames(), Sources: []string{g.name}, Badge: "server was out",
			Text: fmt.Sprintf("%s got no calls from %s to %s, because %s.", s.URL, clock(s.Left), clock(s.Returned), s.Reason),
			Next: "Nothing, if you know the reason, such as a restart. Its log has the time before.",
		})
	}
	return found[:min(len(found), mostNamed)]
}

func clock(t time.Time) string { return t.Local().Format(time.TimeOnly) }
