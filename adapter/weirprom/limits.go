package weirprom

import (
	"reflect"
	"strings"

	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/limit"
)

// limiters are those that a scrape has told of, so that one that several Guards
// share is told once.
type limiters map[limit.Limiter]bool

// guard sends how g's limiters stand: each under its own name, or g's if it has
// none. Of limiters from elsewhere only those can be told that have the Stats of
// one of package limit.
func (l limiters) guard(s sink, g guard, taken names) {
	for _, lim := range limit.Parts(g.Limiter()) {
		if !reflect.ValueOf(lim).Comparable() || l[lim] {
			continue
		}
		l[lim] = true
		tell := s.limiter(lim)
		if tell == nil {
			continue
		}
		name := g.name
		if n, ok := lim.(interface{ Name() string }); ok && n.Name() != "" {
			name = label(n.Name())
		}
		tell(taken.take(name, g.name+":"+name))
	}
}

// limiter returns what sends how l stands under a name, or nil.
func (s sink) limiter(l limit.Limiter) func(name string) {
	switch l := l.(type) {
	case interface{ Stats() limit.AdaptiveStats }:
		return func(name string) {
			st := l.Stats()
			s.concurrency(name, st.ConcurrencyStats)
			put(s, limitLatency, st.Latency.Seconds(), name)
			put(s, limitBaseline, st.Baseline.Seconds(), name)
		}
	case interface {
		Stats() limit.ConcurrencyStats
	}:
		return func(name string) { s.concurrency(name, l.Stats()) }
	case interface{ Stats() limit.RateStats }:
		return func(name string) {
			st := l.Stats()
			put(s, limitQueued, st.Queued, name)
			put(s, limitAdmitted, st.Admitted, name)
			put(s, limitWaited, st.Waited, name)
			s.refusals(name, st.Refused)
		}
	}
	return nil
}

func (s sink) concurrency(name string, st limit.ConcurrencyStats) {
	put(s, limitPermits, st.Limit, name)
	put(s, limitInUse, st.InUse, name)
	put(s, limitQueued, st.Queued, name)
	putBool(s, limitOverloaded, st.Overloaded, name)
	put(s, limitAdmitted, st.Admitted, name)
	put(s, limitWaited, st.Waited, name)
	s.refusals(name, st.Refused)
}

// upstreamLimit sends how an upstream's limit stands. One without a cap has
// nothing to tell.
func (s sink) upstreamLimit(name string, st gateway.LimitStats) {
	if st.Kind == "none" {
		return
	}
	var refused limit.Refusals
	for reason := range refused {
		refused[reason] = st.RefusedBy[limit.Reason(reason).String()]
	}
	s.concurrency(name, limit.ConcurrencyStats{
		Limit: st.Limit, InUse: st.InUse, Queued: st.Queued, Overloaded: st.Overloaded,
		Admitted: st.Admitted, Waited: st.Waited, Refused: refused,
	})
	if st.Kind == "adaptive" {
		put(s, limitLatency, st.Latency.Seconds(), name)
		put(s, limitBaseline, st.Baseline.Seconds(), name)
	}
}

func (s sink) refusals(name string, r limit.Refusals) {
	for reason := limit.RateExceeded; int(reason) < len(r); reason++ {
		put(s, limitRefused, r[reason], name, reasonLabel(reason))
	}
}

// reasonLabel is how metrics call r.
func reasonLabel(r limit.Reason) string {
	switch r {
	case limit.RateExceeded:
		return "rate_exceeded"
	case limit.QueueFull:
		return "queue_full"
	case limit.QueueTimeout:
		return "queue_timeout"
	case limit.WaitTooLong:
		return "wait_too_long"
	case limit.Displaced:
		return "displaced"
	case limit.NoSpare:
		return "no_spare"
	case limit.TooMany:
		return "too_many"
	}
	return strings.ReplaceAll(r.String(), " ", "_")
}
