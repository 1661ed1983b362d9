package entries_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/contract/rig"
	"github.com/weir-go/weir/limit"
)

// E1: the effect of each field of a Policy at each instant of an entry. The
// entry is loaded at 0 and refreshed ahead from 80 s. It is stale from 100 s;
// stale-while-revalidate ends at 150 s and stale-if-error at 500 s.
func TestE1GetWithAPolicy(t *testing.T) {
	instead := func(v int, age time.Duration, cause error) weir.Result[int] {
		r := rig.Fresh(v, age)
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
		{weir.Policy{MaxAge: 30 * sec}, 30 * sec, nil, rig.Fresh(1, 30*sec), 1},
		{weir.Policy{MaxAge: 30 * sec}, 30*sec + 1, nil, rig.Loaded(2), 2},
		{weir.Policy{MaxAge: 90 * sec}, 85 * sec, nil, rig.Fresh(1, 85*sec), 2}, // refreshed ahead
		{weir.Policy{MaxAge: 130 * sec}, 120 * sec, nil, rig.Stale(1, 120*sec), 2},
		{weir.Policy{MaxAge: 110 * sec}, 120 * sec, nil, rig.Loaded(2), 2},
		{weir.Policy{MaxAge: 30 * sec}, 40 * sec, rig.ErrDown, rig.Failure(rig.ErrDown), 2},
		{weir.Policy{MaxAge: 200 * sec}, 180 * sec, rig.ErrDown, rig.StaleOnError(1, 180*sec, rig.ErrDown), 2},
		{weir.Policy{MaxAge: 170 * sec}, 180 * sec, rig.ErrDown, rig.Failure(rig.ErrDown), 2},

		{weir.Policy{OnlyCached: true}, 40 * sec, nil, rig.Fresh(1, 40*sec), 1},
		{weir.Policy{OnlyCached: true}, 90 * sec, nil, rig.Fresh(1, 90*sec), 1},
		{weir.Policy{OnlyCached: true}, 120 * sec, nil, rig.Stale(1, 120*sec), 1},
		{weir.Policy{OnlyCached: true}, 200 * sec, nil, rig.StaleOnError(1, 200*sec, weir.ErrNotCached), 1},
		{weir.Policy{OnlyCached: true}, 500 * sec, nil, rig.Failure(weir.ErrNotCached), 1},
		{weir.Policy{OnlyCached: true, NoStale: true}, 120 * sec, nil, rig.Failure(weir.ErrNotCached), 1},
		{weir.Policy{OnlyCached: true, MaxAge: 30 * sec}, 40 * sec, nil, rig.Failure(weir.ErrNotCached), 1},

		{weir.Policy{Bypass: true}, 20 * sec, nil, rig.Loaded(2), 2},
		{weir.Policy{Bypass: true}, 20 * sec, rig.ErrDown, instead(1, 20*sec, rig.ErrDown), 2},
		{weir.Policy{Bypass: true}, 120 * sec, rig.ErrDown, rig.StaleOnError(1, 120*sec, rig.ErrDown), 2},
		{weir.Policy{Bypass: true}, 500 * sec, rig.ErrDown, rig.Failure(rig.ErrDown), 2},
		{weir.Policy{Bypass: true, NoStale: true}, 20 * sec, rig.ErrDown, rig.Failure(rig.ErrDown), 2},
		{weir.Policy{Bypass: true, MaxAge: 30 * sec}, 20 * sec, rig.ErrDown, instead(1, 20*sec, rig.ErrDown), 2},
		{weir.Policy{Bypass: true, MaxAge: 10 * sec}, 20 * sec, rig.ErrDown, rig.Failure(rig.ErrDown), 2},

		{weir.Policy{NoStale: true}, 20 * sec, nil, rig.Fresh(1, 20*sec), 1},
		{weir.Policy{NoStale: true}, 90 * sec, nil, rig.Fresh(1, 90*sec), 2},
		{weir.Policy{NoStale: true}, 120 * sec, nil, rig.Loaded(2), 2},
		{weir.Policy{NoStale: true}, 120 * sec, rig.ErrDown, rig.Failure(rig.ErrDown), 2},
		{weir.Policy{NoStale: true}, 200 * sec, rig.ErrDown, rig.Failure(rig.ErrDown), 2},

		{weir.Policy{SoftTimeout: 2 * sec}, 200 * sec, errHangs, rig.StaleOnError(1, 202*sec, late), 2},
		{weir.Policy{SoftTimeout: 2 * sec, NoStale: true}, 200 * sec, errHangs, rig.Failure(errHangs), 2},
		{weir.Policy{SoftTimeout: 2 * sec, Bypass: true}, 20 * sec, errHangs, instead(1, 22*sec, late), 2},
		{weir.Policy{SoftTimeout: 2 * sec, MaxAge: 201 * sec}, 200 * sec, errHangs, rig.Failure(errHangs), 2},
	} {
		t.Run(fmt.Sprintf("%+v/%v/%v", row.p, row.at, row.err), func(t *testing.T) {
			rig.Play(t, rig.FourInstants, func(s *rig.Scene) {
				s.Prime("k")
				s.Set(0, row.err)
				if row.err == errHangs {
					s.Set(10*sec, row.err)
				}
				s.Until(row.at)
				got := s.G.GetWith(s.Context(), "k", row.p)
				if (row.want.Cause == late) != errors.As(got.Cause, new(*weir.TimeoutError)) {
					s.Errorf("Cause = %v; want %v", got.Cause, row.want.Cause)
				} else if row.want.Cause == late {
					got.Cause, row.want.Cause = nil, nil
				}
				s.Want(got, row.want)
				s.WantLoads(row.loads)
			})
		})
	}
}

var errHangs = errors.New("the source hangs, and fails at last")

// E1: GetWith with the zero Policy is GetResult, and an invalid policy is an
// error.
func TestE1GetWithNothingIsGetResult(t *testing.T) {
	rig.Play(t, rig.FourInstants, func(s *rig.Scene) {
		s.Want(s.G.GetWith(s.Context(), "k", weir.Policy{}), rig.Loaded(1))
		s.Until(sec)
		s.Want(s.G.GetWith(s.Context(), "k", weir.Policy{}), rig.Fresh(1, sec))
		for _, row := range []struct {
			p     weir.Policy
			field string
		}{
			{weir.Policy{MaxAge: -1}, "Policy.MaxAge"},
			{weir.Policy{OnlyCached: true, Bypass: true}, "Policy.OnlyCached"},
		} {
			var fault *weir.OptionError
			if r := s.G.GetWith(s.Context(), "k", row.p); !errors.As(r.Err, &fault) || fault.Field != row.field {
				s.Errorf("%+v: %v; want a fault of %s", row.p, r.Err, row.field)
			}
		}
		s.WantLoads(1)
	})
}

// E1: SoftTimeout -1 means none, even if the Options set one.
func TestE1GetWithoutTheSoftTimeout(t *testing.T) {
	o := rig.FourInstants
	o.SoftTimeout = sec
	rig.Play(t, o, func(s *rig.Scene) {
		s.Prime("k")
		s.Set(10*sec, nil)
		s.Until(200 * sec)
		s.Want(s.G.GetWith(s.Context(), "k", weir.Policy{SoftTimeout: -1}), rig.Loaded(2))
		if s.Now() != 210*sec {
			s.Errorf("answered at %v; want 210s", s.Now())
		}
	})
}

// F4: a call with a policy joins a running load, and other calls join its load.
func TestF4PoliciesShareLoads(t *testing.T) {
	for _, p := range []weir.Policy{{MaxAge: sec}, {Bypass: true}, {NoStale: true}, {SoftTimeout: time.Hour}} {
		rig.Tell(t, func(s *rig.Story) {
			m := &rig.Mill{Takes: time.Second}
			g := s.Guard(m.Load, weir.Options{TTL: time.Minute})
			first := s.Get(s.Context(), g, "k")
			joins := s.Ask(func() weir.Result[int] { return g.GetWith(s.Context(), "k", p) })
			s.Want(first, 1, nil, time.Second)
			if !s.Want(joins, 1, nil, time.Second).Joined {
				s.Errorf("%+v: the load that runs was not joined", p)
			}
			s.At(40 * time.Second)
			g.Expire(s.Context(), "k")
			own := s.Ask(func() weir.Result[int] { return g.GetWith(s.Context(), "k", p) })
			joined := s.Get(s.Context(), g, "k")
			s.Want(own, 2, nil, 41*time.Second)
			s.Want(joined, 2, nil, 41*time.Second)
			s.WantRuns(m, 2)
		})
	}
}

// E4: a remembered failure stops a load, unless the call bypasses it.
func TestE4PoliciesAndRememberedFailures(t *testing.T) {
	o := rig.FourInstants
	o.FailureMemo.Transient.Initial = time.Hour
	rig.Play(t, o, func(s *rig.Scene) {
		s.Prime("k")
		s.Set(0, rig.ErrDown)
		s.Until(200 * sec)
		s.Get("k") // fails, and is remembered
		for _, p := range []weir.Policy{{NoStale: true}, {MaxAge: sec}} {
			s.Want(s.G.GetWith(s.Context(), "k", p), rig.Remembered(rig.ErrDown))
		}
		s.Want(s.G.GetWith(s.Context(), "k", weir.Policy{SoftTimeout: sec}), rig.StaleOnError(1, 200*sec, rig.ErrDown))
		s.WantLoads(2)
		s.Set(0, nil)
		s.Want(s.G.GetWith(s.Context(), "k", weir.Policy{Bypass: true}), rig.Loaded(3))
	})
}

// E9: after Close only fresh values are served.
func TestE9PoliciesAfterClose(t *testing.T) {
	rig.Play(t, rig.FourInstants, func(s *rig.Scene) {
		s.Prime("k")
		s.G.Close(s.Context())
		s.Want(s.G.GetWith(s.Context(), "k", weir.Policy{OnlyCached: true}), rig.Fresh(1, 0))
		s.Want(s.G.GetWith(s.Context(), "k", weir.Policy{Bypass: true}), rig.Failure(weir.ErrClosed))
		s.Until(120 * sec)
		s.Want(s.G.GetWith(s.Context(), "k", weir.Policy{OnlyCached: true}), rig.Failure(weir.ErrClosed))
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
	rig.Tell(t, func(s *rig.Story) {
		g := s.Guard((&rig.Mill{}).Load, weir.Options{Limiter: l})
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
	rig.InFleet(t, func(s *rig.Site) {
		gs := s.Instances(3, func(o *weir.Options) { o.StaleWhileRevalidate = 10 * time.Minute })
		with := func(i int, p weir.Policy) weir.Result[rig.Row] {
			r := gs[i].GetWith(s.Context(), "k", p)
			synctest.Wait()
			return r
		}
		s.Get(gs[0], "k", 0)
		time.Sleep(40 * sec)
		if r := with(1, weir.Policy{OnlyCached: true}); r.Err != weir.ErrNotCached {
			s.Errorf("%+v; want ErrNotCached: the Tier is not asked", r)
		}
		if r := with(1, weir.Policy{MaxAge: 30 * sec}); r.Err != nil || r.Source != weir.FromLoad {
			s.Errorf("%+v; want a load, as the Tier's is too old", r)
		}
		s.Loaded(2)
		time.Sleep(10 * sec)
		if r := with(2, weir.Policy{MaxAge: 30 * sec}); r.Err != nil || r.Source != weir.FromTier || r.Age > 30*sec {
			s.Errorf("%+v; want what the other has loaded", r)
		}
		s.Loaded(2)
		time.Sleep(55 * sec) // stale everywhere, and in the Tier
		if r := with(0, weir.Policy{NoStale: true}); r.Err != nil || r.State == weir.StateStale {
			s.Errorf("%+v; want nothing stale", r)
		}
		s.Loaded(3)
		if r := with(1, weir.Policy{NoStale: true}); r.Err != nil || r.State == weir.StateStale || r.Age > sec {
			s.Errorf("%+v; want what the other has loaded", r)
		}
		s.Loaded(3)
	})
	rig.InFleet(t, func(s *rig.Site) { // with nothing in memory, where the Tier would return a stale value
		gs := s.Instances(2, func(o *weir.Options) { o.StaleWhileRevalidate = 10 * time.Minute })
		s.Get(gs[0], "k", 0)
		time.Sleep(2 * time.Minute)
		if r := gs[1].GetWith(s.Context(), "k", weir.Policy{NoStale: true}); r.Err != nil || r.State == weir.StateStale || r.Age > sec {
			s.Errorf("%+v; want nothing stale", r)
		}
		s.Loaded(2)
	})
}
