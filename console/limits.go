package console

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/weir-go/weir/limit"
)

// A limiter is a limiter of package limit with the name under which it is shown.
type limiter struct {
	name, kind string
	of         limit.Limiter
}

// limiters are named limiters, each once. The zero value has none.
type limiters struct {
	all   []limiter // by name
	names map[limit.Limiter]string
	taken map[string]bool
}

// add names the parts of l that have no name yet: as in their options, or else owner.
func (s *limiters) add(owner string, l limit.Limiter) {
	if s.names == nil {
		s.names, s.taken = map[limit.Limiter]string{}, map[string]bool{}
	}
	for _, part := range limit.Parts(l) {
		name, kind := known(part)
		if kind == "" || s.names[part] != "" {
			continue
		}
		name = unlike(s.taken, cmp.Or(name, owner), kind)
		s.names[part] = name
		i, _ := slices.BinarySearchFunc(s.all, name, func(l limiter, name string) int { return cmp.Compare(l.name, name) })
		s.all = slices.Insert(s.all, i, limiter{name, kind, part})
	}
}

// of returns the name of the most informative part of l: a concurrency limiter rather
// than a rate limiter.
func (s *limiters) of(l limit.Limiter) (best string) {
	for _, part := range limit.Parts(l) {
		if _, kind := known(part); kind != "" && (best == "" || kind != "rate") {
			best = s.names[part]
		}
	}
	return best
}

// find returns the current state of the limiter of that name; nil if there is none.
func (s *limiters) find(name string) *Limit {
	for _, l := range s.all {
		if l.name == name {
			stand := l.stand()
			return &stand
		}
	}
	return nil
}

// stand returns the current state of all.
func (s *limiters) stand() []Limit {
	var out []Limit
	for _, l := range s.all {
		out = append(out, l.stand())
	}
	return out
}

// unlike returns name, with a suffix if the name is taken.
func unlike(taken map[string]bool, name, kind string) string {
	unique := name
	for i := 1; taken[unique]; i++ {
		unique = name + " " + kind
		if i > 1 {
			unique = fmt.Sprintf("%s %s %d", name, kind, i)
		}
	}
	taken[unique] = true
	return unique
}

// known returns the name and the kind of a limiter of package limit; kind is "" for
// others.
func known(l limit.Limiter) (name, kind string) {
	switch l := l.(type) {
	case *limit.Concurrency:
		return l.Name(), "fixed"
	case *limit.Adaptive:
		return l.Name(), "adaptive"
	case *limit.RateLimiter:
		return l.Name(), "rate"
	}
	return "", ""
}

// stand returns the current state of l.
func (l limiter) stand() Limit {
	out := Limit{Name: l.name, Kind: l.kind}
	switch of := l.of.(type) {
	case *limit.Concurrency:
		out.permits(of.Stats())
	case *limit.Adaptive:
		stats := of.Stats()
		out.permits(stats.ConcurrencyStats)
		out.Latency, out.Baseline = stats.Latency, stats.Baseline
	case *limit.RateLimiter:
		stats := of.Stats()
		out.Limit, out.Queued = stats.PerSecond, stats.Queued
		out.Admitted, out.Waited, out.Left = stats.Admitted, stats.Waited, stats.Left
		out.Refused = reasons(stats.Refused)
	}
	return out
}

func (l *Limit) permits(s limit.ConcurrencyStats) {
	l.Limit, l.InUse, l.Queued = float64(s.Limit), s.InUse, s.Queued
	l.Overloaded, l.Storm, l.Held = s.Overloaded, s.Storm, s.Held
	l.Admitted, l.Waited, l.Left = s.Admitted, s.Waited, s.Left
	l.Refused = reasons(s.Refused)
}

// reasons returns the nonzero counts of refusals by the text of their reason.
func reasons(all limit.Refusals) map[string]uint64 {
	by := map[string]uint64{}
	for reason, n := range all {
		if n > 0 {
			by[limit.Reason(reason).String()] = n
		}
	}
	return by
}
