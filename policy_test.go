package weir_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/limit"
)

// E1: the effect of each field of a Policy at each instant of an entry. The
// entry is loaded at 0 and refreshed ahead from 80 s. It is stale from 100 s;
// stale-while-revalidate ends at 150 s and stale-if-error at 500 s.
func TestE1GetWithAPolicy(t *testing.T) {
	instead := func(v int, age time.Duration, cause error) weir.Result[int] {
		r := fresh(v, age)
		r.Cause = cause
		return r
	}
	late := &weir.TimeoutError{After: 2 * sec, Soft: true}
	for _, row := range []struct {
		p     weir.Policy
		at    time.Duration
		err   error // of the second load
		want  weir.Result[int]
		loads int
	}{
		{weir.Policy{MaxAge: 30 * sec}, 30 * sec, nil, fresh(1, 30*sec), 1},
		{weir.Policy{MaxAge: 30 * sec}, 30*sec + 1, nil, loaded(2), 2},
		{weir.Policy{MaxAge: 90 * sec}, 85 * sec, nil, fresh(1, 85*sec), 2}, // refreshed ahead
		{weir.Policy{MaxAge: 130 * sec}, 120 * sec, nil, stale(1, 120*sec), 2},
		{weir.Policy{MaxAge: 110 * sec}, 120 * sec, nil, loaded(2), 2},
		{weir.Policy{MaxAge: 30 * sec}, 40 * sec, errDry, failure(errDry), 2},
		{weir.Policy{MaxAge: 200 * sec}, 180 * sec, errDry, staleOnError(1, 180*sec, errDry), 2},
		{weir.Policy{MaxAge: 170 * sec}, 180 * sec, errDry, failure(errDry), 2},

		{weir.Policy{OnlyCached: true}, 40 * sec, nil, fresh(1, 40*sec), 1},
		{weir.Policy{OnlyCached: true}, 90 * sec, nil, fresh(1, 90*sec), 1},
		{weir.Policy{OnlyCached: true}, 120 * sec, nil, stale(1, 120*sec), 1},
		{weir.Policy{OnlyCached: true}, 200 * sec, nil, staleOnError(1, 200*sec, weir.ErrNotCached), 1},
		{weir.Policy{OnlyCached: true}, 500 * sec, nil, failure(weir.ErrNotCached), 1},
		{weir.Policy{OnlyCached: true, NoStale: true}, 120 * sec, nil, failure(weir.ErrNotCached), 1},
		{weir.Policy{OnlyCached: true, MaxAge: 30 * sec}, 40 * sec, nil, failure(weir.ErrNotCached), 1},

		{weir.Policy{Bypass: true}, 20 * sec, nil, loaded(2), 2},
		{weir.Policy{Bypass: true}, 20 * sec, errDry, instead(1, 20*sec, errDry), 2},
		{weir.Policy{Bypass: true}, 120 * sec, errDry, staleOnError(1, 120*sec, errDry), 2},
		{weir.Policy{Bypass: true}, 500 * sec, errDry, failure(errDry), 2},
		{weir.Policy{Bypass: true, NoStale: true}, 20 * sec, errDry, failure(errDry), 2},
		{weir.Policy{Bypass: true, MaxAge: 30 * sec}, 20 * sec, errDry, instead(1, 20*sec, errDry), 2},
		{weir.Policy{Bypass: true, MaxAge: 10 * sec}, 20 * sec, errDry, failure(errDry), 2},

		{weir.Policy{NoStale: true}, 20 * sec, nil, fresh(1, 20*sec), 1},
		{weir.Policy{NoStale: true}, 90 * sec, nil, fresh(1, 90*sec), 2},
		{weir.Policy{NoStale: true}, 120 * sec, nil, loaded(2), 2},
		{weir.Policy{NoStale: true}, 120 * sec, errDry, failure(errDry), 2},
		{weir.Policy{NoStale: true}, 200 * sec, errDry, failure(errDry), 2},

		{weir.Policy{SoftTimeout: 2 * sec}, 200 * sec, errHangs, staleOnError(1, 202*sec, late), 2},
		{weir.Policy{SoftTimeout: 2 * sec, NoStale: true}, 200 * sec, errHangs, failure(errHangs), 2},
		{weir.Policy{SoftTimeout: 2 * sec, Bypass: true}, 20 * sec, errHangs, instead(1, 22*sec, late), 2},
		{weir.Policy{SoftTimeout: 2 * sec, MaxAge: 201 * sec}, 200 * sec, errHangs, failure(errHangs), 2},
	} {
		t.Run(fmt.Sprintf("%+v/%v/%v", row.p, row.at, row.err), func(t *testing.T) {
			play(t, fourInstants, func(s *scene) {
				s.prime("k")
				s.set(0, row.err)
				if row.err == errHangs {
					s.set(10*sec, row.err)
				}
				s.until(row.at)
				got := s.g.GetWith(s.Context(), "k", row.p)
				if (row.want.Cause == late) != errors.As(got.Cause, new(*weir.TimeoutError)) {
					s.Errorf("Cause = %v; want %v", got.Cause, row.want.Cause)
				} else if row.want.Cause == late {
					got.Cause, row.want.Cause = nil, nil
				}
				s.want(got, row.want)
				s.wantLoads(row.loads)
			})
		})
	}
}

var errHangs = errors.New("the source hangs, and fails at last")

// E1: GetWith with the zero Policy is GetResult, and an invalid policy is an
// error.
func TestE1GetWithNothingIsGetResult(t *testing.T) {
	play(t, fourInstants, func(s *scene) {
		s.want(s.g.GetWith(s.Context(), "k", weir.Policy{}), loaded(1))
		s.until(sec)
		s.want(s.g.GetWith(s.Context(), "k", weir.Policy{}), fresh(1, sec))
		for _, row := range []struct {
			p     weir.Policy
			field string
		}{
			{weir.Policy{MaxAge: -1}, "Policy.MaxAge"},
			{weir.Policy{OnlyCached: true, Bypass: true}, "Policy.OnlyCached"},
		} {
			var fault *weir.OptionError
			if r := s.g.GetWith(s.Context(), "k", row.p); !errors.As(r.Err, &fault) || fault.Field != row.field {
				s.Errorf("%+v: %v; want a fault of %s", row.p, r.Err, row.field)
			}
		}
		s.wantLoads(1)
	})
}

// E1: SoftTimeout -1 means none, even if the Options set one.
func TestE1GetWithoutTheSoftTimeout(t *testing.T) {
	o := fourInstants
	o.SoftTimeout = sec
	play(t, o, func(s *scene) {
		s.prime("k")
		s.set(10*sec, nil)
		s.until(200 * sec)
		s.want(s.g.GetWith(s.Context(), "k", weir.Policy{SoftTimeout: -1}), loaded(2))
		if s.now() != 210*sec {
			s.Errorf("answered at %v; want 210s", s.now())
		}
	})
}

// F4: a call with a policy joins a running load, and other calls join its load.
func TestF4PoliciesShareLoads(t *testing.T) {
	for _, p := range []weir.Policy{{MaxAge: sec}, {Bypass: true}, {NoStale: true}, {SoftTimeout: time.Hour}} {
		tell(t, func(s *story) {
			m := &mill{takes: time.Second}
			g := s.guard(m.load, weir.Options{TTL: time.Minute})
			first := s.get(s.Context(), g, "k")
			joins := s.ask(func() weir.Result[int] { return g.GetWith(s.Context(), "k", p) })
			s.want(first, 1, nil, time.Second)
			if !s.want(joins, 1, nil, time.Second).Joined {
				s.Errorf("%+v: the load that runs was not joined", p)
			}
			s.at(40 * time.Second)
			g.Expire(s.Context(), "k")
			own := s.ask(func() weir.Result[int] { return g.GetWith(s.Context(), "k", p) })
			joined := s.get(s.Context(), g, "k")
			s.want(own, 2, nil, 41*time.Second)
			s.want(joined, 2, nil, 41*time.Second)
			s.wantRuns(m, 2)
		})
	}
}

// E4: a remembered failure stops a load, unless the call bypasses it.
func TestE4PoliciesAndRememberedFailures(t *testing.T) {
	o := fourInstants
	o.FailureMemo.Transient.Initial = time.Hour
	play(t, o, func(s *scene) {
		s.prime("k")
		s.set(0, errDry)
		s.until(200 * sec)
		s.get("k") // fails, and is remembered
		for _, p := range []weir.Policy{{NoStale: true}, {MaxAge: sec}} {
			s.want(s.g.GetWith(s.Context(), "k", p), remembered(errDry))
		}
		s.want(s.g.GetWith(s.Context(), "k", weir.Policy{SoftTimeout: sec}), staleOnError(1, 200*sec, errDry))
		s.wantLoads(2)
		s.set(0, nil)
		s.want(s.g.GetWith(s.Context(), "k", weir.Policy{Bypass: true}), loaded(3))
	})
}

// E9: after Close only fresh values are served.
func TestE9PoliciesAfterClose(t *testing.T) {
	play(t, fourInstants, func(s *scene) {
		s.prime("k")
		s.g.Close(s.Context())
		s.want(s.g.GetWith(s.Context(), "k", weir.Policy{OnlyCached: true}), fresh(1, 0))
		s.want(s.g.GetWith(s.Context(), "k", weir.Policy{Bypass: true}), failure(weir.ErrClosed))
		s.until(120 * sec)
		s.want(s.g.GetWith(s.Context(), "k", weir.Policy{OnlyCached: true}), failure(weir.ErrClosed))
	})
}

// classes is a limiter that records the priority class of each caller.
type classes struct{ asked []limit.Priority }

func (c *classes) Acquire(ctx context.Context) (limit.Permit, error) {
	c.asked = append(c.asked, limit.PriorityOf(ctx))
	return limit.NewPermit(func(limit.Outcome) {}), nil
}

// F3: the Priority of a call's Policy replaces that of its context.
func TestF3PolicyPriority(t *testing.T) {
	l := &classes{}
	tell(t, func(s *story) {
		g := s.guard((&mill{}).load, weir.Options{Limiter: l})
		high := limit.ContextWithPriority(s.Context(), limit.High)
		for i, p := range []weir.Policy{{Bypass: true}, {Bypass: true, Priority: limit.Low}} {
			g.GetWith(high, fmt.Sprint(i), p)
		}
		g.GetWith(s.Context(), "2", weir.Policy{Priority: limit.Background})
		if want := []limit.Priority{limit.High, limit.Low, limit.Background}; !slices.Equal(l.asked, want) {
			s.Errorf("classes %v; want %v", l.asked, want)
		}
	})
}

// T2, in a fleet: a value loaded by another instance is an answer if the policy
// allows it; if not, it is loaded again, once for all.
func TestFleetPolicies(t *testing.T) {
	inFleet(t, func(s *site) {
		gs := s.instances(3, func(o *weir.Options) { o.StaleWhileRevalidate = 10 * time.Minute })
		with := func(i int, p weir.Policy) weir.Result[row] {
			r := gs[i].GetWith(s.Context(), "k", p)
			synctest.Wait()
			return r
		}
		s.get(gs[0], "k", 0)
		time.Sleep(40 * sec)
		if r := with(1, weir.Policy{OnlyCached: true}); r.Err != weir.ErrNotCached {
			s.Errorf("%+v; want ErrNotCached: the Tier is not asked", r)
		}
		if r := with(1, weir.Policy{MaxAge: 30 * sec}); r.Err != nil || r.Source != weir.FromLoad {
			s.Errorf("%+v; want a load, as the Tier's is too old", r)
		}
		s.loaded(2)
		time.Sleep(10 * sec)
		if r := with(2, weir.Policy{MaxAge: 30 * sec}); r.Err != nil || r.Source != weir.FromTier || r.Age > 30*sec {
			s.Errorf("%+v; want what the other has loaded", r)
		}
		s.loaded(2)
		time.Sleep(55 * sec) // stale everywhere, and in the Tier
		if r := with(0, weir.Policy{NoStale: true}); r.Err != nil || r.State == weir.StateStale {
			s.Errorf("%+v; want nothing stale", r)
		}
		s.loaded(3)
		if r := with(1, weir.Policy{NoStale: true}); r.Err != nil || r.State == weir.StateStale || r.Age > sec {
			s.Errorf("%+v; want what the other has loaded", r)
		}
		s.loaded(3)
	})
	inFleet(t, func(s *site) { // with nothing in memory, where the Tier would return a stale value
		gs := s.instances(2, func(o *weir.Options) { o.StaleWhileRevalidate = 10 * time.Minute })
		s.get(gs[0], "k", 0)
		time.Sleep(2 * time.Minute)
		if r := gs[1].GetWith(s.Context(), "k", weir.Policy{NoStale: true}); r.Err != nil || r.State == weir.StateStale || r.Age > sec {
			s.Errorf("%+v; want nothing stale", r)
		}
		s.loaded(2)
	})
}
