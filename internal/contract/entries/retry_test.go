package entries_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/contract/rig"
)

// E2, E4: a hot key that the source does not have is refreshed ahead like
// others: no caller waits when its NegativeTTL ends.
func TestE2NegativeAnswersAreRefreshedAhead(t *testing.T) {
	o := weir.Options{NegativeTTL: 10 * sec, RefreshAhead: 0.2, RefreshJitter: -1}
	rig.Play(t, o, func(s *rig.Scene) {
		s.Set(sec, weir.ErrNotFound)
		s.Get("k") // until 1s
		for s.Now() < 100*sec {
			from := s.Now()
			if r := s.Get("k"); r.Err != weir.ErrNotFound || r.Source != weir.FromMemory || s.Now() != from {
				s.Fatalf("at %v: %+v after %v; want a negative hit", from, r, s.Now()-from)
			}
			s.Until(s.Now() + sec/2)
		}
		s.WantLoads(1 + 11) // 9 s apart: 8 s and the load
		s.Set(0, nil)
		s.Until(120 * sec)
		s.Get("k")                           // it was not requested until it had expired
		s.Want(s.Get("k"), rig.Loaded(13+1)) // no TTL: the key exists now
	})
	rig.Play(t, o, func(s *rig.Scene) { // a failed refresh extends nothing (E3)
		s.Set(0, weir.ErrNotFound)
		s.Get("k")
		s.Set(0, rig.ErrDown)
		for _, at := range []time.Duration{8 * sec, 9 * sec, 10*sec - 1} {
			s.Until(at)
			s.Want(s.Get("k"), rig.Negative(weir.FromMemory, at))
		}
		s.WantLoads(3) // at 8 s and 9 s
		s.Until(10 * sec)
		s.Want(s.Get("k"), rig.Failure(rig.ErrDown))
	})
	rig.Play(t, o, func(s *rig.Scene) { // the refresh replaces it
		s.Set(0, weir.ErrNotFound)
		s.G.GetMany(s.Context(), []string{"a", "b"})
		s.Says(weir.Entry[int]{TTL: time.Hour, Value: 7}, nil)
		s.Until(8*sec - 1)
		s.G.GetMany(s.Context(), []string{"a", "b"})
		s.WantLoads(2)
		s.Until(8 * sec)
		r := s.G.GetMany(s.Context(), []string{"a", "b"})
		s.Want(r["a"], rig.Negative(weir.FromMemory, 8*sec))
		s.WantLoads(4)
		s.Want(s.Get("b"), rig.Fresh(7, 0))
	})
	rig.Play(t, weir.Options{NegativeTTL: 60 * sec, RefreshBeta: always}, func(s *rig.Scene) { // by a draw
		s.Set(sec, weir.ErrNotFound)
		s.Get("k")
		s.Want(s.Get("k"), rig.Negative(weir.FromMemory, 0))
		s.WantLoads(2)
	})
	rig.Play(t, weir.Options{NegativeTTL: 10 * sec}, func(s *rig.Scene) { // off
		s.Set(0, weir.ErrNotFound)
		s.Get("k")
		s.Until(10*sec - 1)
		s.Get("k")
		s.WantLoads(1)
	})
}

// The same in a fleet, for the instance that received it.
func TestFleetNegativeAnswersAreRefreshedAhead(t *testing.T) {
	rig.InFleet(t, func(s *rig.Site) {
		s.Takes = 0
		s.Fail(weir.ErrNotFound)
		gs := s.Instances(2, func(o *weir.Options) { o.NegativeTTL, o.RefreshAhead, o.RefreshJitter = 10*sec, 0.2, -1 })
		for _, g := range gs {
			g.Get(s.Context(), "k")
		}
		time.Sleep(9 * sec)
		if r := gs[1].GetResult(s.Context(), "k"); r.State != weir.StateNegative || r.Source != weir.FromMemory {
			s.Errorf("%+v; want a negative hit", r)
		}
		synctest.Wait()
		s.Loaded(2)
		time.Sleep(5 * sec)
		for _, g := range gs {
			if r := g.GetResult(s.Context(), "k"); r.State != weir.StateNegative || r.Source == weir.FromLoad {
				s.Errorf("%+v; want what the refresh has found", r)
			}
		}
		s.Loaded(2)
	})
}

// E2: the pause after a failed refresh doubles up to its bound, and is reset by
// a success; a refusal is not a failure.
func TestE2RefreshRetryDoublesUpToItsBound(t *testing.T) {
	for name, row := range map[string]struct {
		o    weir.Options
		want []time.Duration // the attempts from the TTL, 100 s, to 200 s, in seconds
	}{
		"by default":    {weir.Options{}, []time.Duration{100, 101, 103, 107, 115, 131, 161, 191}},
		"with a bound":  {weir.Options{RefreshRetryMax: 4 * sec}, []time.Duration{100, 101, 103, 107, 111, 115, 119, 123, 127, 131, 135, 139, 143, 147, 151, 155, 159, 163, 167, 171, 175, 179, 183, 187, 191, 195, 199}},
		"flat":          {weir.Options{RefreshRetry: 25 * sec, RefreshRetryMax: 25 * sec}, []time.Duration{100, 125, 150, 175, 200}},
		"beyond it":     {weir.Options{RefreshRetry: 40 * sec}, []time.Duration{100, 140, 180}},
		"no power of 2": {weir.Options{RefreshRetry: 3 * sec, RefreshRetryMax: 20 * sec}, []time.Duration{100, 103, 109, 121, 141, 161, 181}},
	} {
		for _, many := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", many: ", many), func(t *testing.T) {
				o := row.o
				o.TTL, o.StaleWhileRevalidate = 100*sec, time.Hour
				rig.Play(t, o, func(s *rig.Scene) {
					s.Prime("k")
					s.Set(0, rig.ErrDown)
					for at := 100 * sec; at <= 200*sec; at += sec {
						s.Until(at)
						if many {
							s.G.GetMany(s.Context(), []string{"k"})
						} else {
							s.Get("k")
						}
						synctest.Wait()
					}
					var got []time.Duration
					for _, c := range s.Loads()[1:] {
						got = append(got, c.At/sec)
					}
					if fmt.Sprint(got) != fmt.Sprint(row.want) {
						s.Errorf("tries at %d; want %d", got, row.want)
					}
				})
			})
		}
	}
	tries := func(s *rig.Scene, from, to time.Duration) (n int) {
		for at := from; at <= to; at += sec {
			s.Until(at)
			s.Get("k")
		}
		for _, c := range s.Loads() {
			if c.At >= from && c.At <= to {
				n++
			}
		}
		return n
	}
	o := weir.Options{TTL: 100 * sec, StaleWhileRevalidate: time.Hour}
	for name, resets := range map[string]func(s *rig.Scene){
		"success": func(s *rig.Scene) { s.Set(0, nil); s.G.Refresh(s.Context(), "k") },
		"Set":     func(s *rig.Scene) { s.G.Set(s.Context(), "k", 1) },
		"Expire":  func(s *rig.Scene) { s.G.Expire(s.Context(), "k") },
	} {
		rig.Play(t, o, func(s *rig.Scene) {
			s.Prime("k")
			s.Set(0, rig.ErrDown)
			if n := tries(s, 100*sec, 160*sec); n != 6 {
				s.Errorf("%s: %d tries in a minute; want 6", name, n)
			}
			resets(s)
			s.Until(300 * sec)
			s.Set(0, rig.ErrDown)
			if n := tries(s, 300*sec, 307*sec); n != 4 {
				s.Errorf("%s: %d tries in 7 s; want 4, as at first", name, n)
			}
		})
	}
	gated := new(rig.Gate)
	o.Limiter = gated
	rig.Play(t, o, func(s *rig.Scene) {
		s.Prime("k")
		s.Set(0, rig.ErrDown)
		tries(s, 100*sec, 101*sec)
		gated.Shut.Store(true)
		tries(s, 102*sec, 150*sec) // refused about once a second
		before := s.G.Stats().RefreshesSkipped
		tries(s, 151*sec, 160*sec)
		if n := s.G.Stats().RefreshesSkipped - before; n != 10 {
			s.Errorf("%d refusals in 10 s; want 10: they are no failures of the source", n)
		}
	})
}

// E4: Classify may decide what a not-found of another Guard, or of another key,
// means for the key of the load that got it. Without Classify the error is
// passed on.
func TestE4NotFoundOfAnotherGuard(t *testing.T) {
	type guard = *weir.Guard[string, int]
	asked := 0
	says := func(c weir.Class) func(error) weir.Class {
		return func(err error) weir.Class {
			if asked++; errors.Is(err, weir.ErrNotFound) {
				return c
			}
			return weir.ClassTransient
		}
	}
	wrap := func(err error) error {
		if err != nil {
			return fmt.Errorf("avatar: %w", err)
		}
		return nil
	}
	ways := map[string]func(ctx context.Context, avatars guard) error{
		"Get":       func(ctx context.Context, g guard) error { _, err := g.Get(ctx, "a"); return wrap(err) },
		"unwrapped": func(ctx context.Context, g guard) error { _, err := g.Get(ctx, "a"); return err },
		"GetMany": func(ctx context.Context, g guard) error {
			return errors.Join(errors.New("user"), g.GetMany(ctx, []string{"a"})["a"].Err)
		},
		"Refresh": func(ctx context.Context, g guard) error { return wrap(g.RefreshResult(ctx, "a").Err) },
		"a child": func(ctx context.Context, g guard) error {
			ctx, cancel := context.WithTimeout(ctx, time.Hour)
			defer cancel()
			return wrap(g.GetResult(ctx, "a").Err)
		},
	}
	for name, way := range ways {
		for _, row := range []struct {
			class    weir.Class
			classify func(error) weir.Class
		}{
			{weir.ClassNotFound, nil},
			{weir.ClassNotFound, says(weir.ClassNotFound)},
			{weir.ClassTransient, says(weir.ClassTransient)},
			{weir.ClassPermanent, says(weir.ClassPermanent)},
			{weir.ClassOverload, says(weir.ClassOverload)},
		} {
			for _, bulk := range []bool{false, true} {
				t.Run(fmt.Sprint(name, row.class, bulk), func(t *testing.T) {
					rig.InFleet(t, func(s *rig.Site) {
						s.Fail(fmt.Errorf("file a: %w", weir.ErrNotFound))
						shared := s.Instances(2, func(o *weir.Options) { o.NegativeTTL = time.Hour })
						shared[1].Get(s.Context(), "a") // so that the first has it from the Tier
						avatars := weir.Must(weir.New(func(ctx context.Context, key string) (int, error) {
							v, err := shared[0].Get(ctx, key)
							return v.Version, err
						}, weir.Options{NegativeTTL: time.Hour}))
						defer avatars.Close(context.Background())
						gone := false
						load := func(ctx context.Context, key string) (int, error) {
							if gone {
								return 0, way(ctx, avatars)
							}
							return 1, nil
						}
						src := weir.Source[string, int]{Load: load}
						if bulk {
							src = weir.Source[string, int]{LoadMany: rig.Singly(load)}
						}
						users := weir.Must(weir.NewFrom(src, weir.Options{TTL: sec, StaleIfError: time.Hour, NegativeTTL: time.Hour, Classify: row.classify}))
						defer users.Close(context.Background())
						users.Get(s.Context(), "u")
						time.Sleep(time.Minute)
						gone, asked = true, 0
						r := users.GetResult(s.Context(), "u")
						negative := row.class == weir.ClassNotFound
						if negative && (r.State != weir.StateNegative || !errors.Is(r.Err, weir.ErrNotFound)) || !negative && (r.State != weir.StateStaleOnError || r.Value != 1) {
							s.Errorf("%+v; want it by class %v", r, row.class)
						}
						if row.classify != nil && asked == 0 {
							s.Error("Classify was not asked")
						}
						if err := r.Err; err != nil && users.Classify(err) != row.class {
							s.Errorf("Classify(%v) = %v; want %v", err, users.Classify(err), row.class)
						}
					})
				})
			}
		}
	}
}

// E4: a Guard's own not-found stays a not-found when it comes back through another
// Guard; a caller outside a load gets the source's error unchanged.
func TestE4NotFoundOfItsOwn(t *testing.T) {
	rig.Play(t, weir.Options{NegativeTTL: time.Hour, Classify: func(error) weir.Class { return weir.ClassPermanent }}, func(s *rig.Scene) {
		s.Set(0, weir.ErrNotFound)
		if r := s.Get("k"); r.Err != weir.ErrNotFound {
			s.Errorf("Get = %v; want ErrNotFound itself", r.Err)
		}
		var class weir.Class
		var given error
		other := weir.Must(weir.New(func(ctx context.Context, key string) (int, error) {
			_, given = s.G.Get(ctx, "k")
			class = s.G.Classify(given)
			return 0, weir.ErrNotFound
		}, weir.Options{Classify: func(err error) weir.Class { s.Errorf("asked about %v", err); return weir.ClassPermanent }}))
		defer other.Close(context.Background())
		if r := other.GetResult(s.Context(), "x"); r.State != weir.StateNegative || r.Err != weir.ErrNotFound {
			s.Errorf("%+v; want the load's own ErrNotFound to be one", r)
		}
		if class != weir.ClassNotFound || !errors.Is(given, weir.ErrNotFound) || given.Error() != weir.ErrNotFound.Error() || errors.Is(given, sql.ErrNoRows) {
			s.Errorf("the load was given %v of class %v; want not found", given, class)
		}
	})
}
