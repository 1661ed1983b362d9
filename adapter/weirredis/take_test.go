package weirredis_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/adapter/weirredis"
	"github.com/weir-go/weir/adapter/weirredis/internal/redistest"
	"github.com/weir-go/weir/fleet"
)

func take(t testing.TB, m fleet.Meter, k fleet.Key, r fleet.Rate, n int) fleet.Taken {
	t.Helper()
	got, err := m.Take(t.Context(), k, r, n)
	if err != nil {
		t.Fatalf("Take(%q, %+v, %d) = %v", k, r, n, err)
	}
	return got
}

func TestTake(t *testing.T) {
	s := redistest.Start(t, redistest.Redis(t))
	tier := open(t, s)
	k, hourly := key("k"), fleet.Rate{Permits: 1, Per: time.Hour, Burst: 10}
	for _, test := range []struct{ n, want int }{{1, 1}, {4, 4}, {100, 5}, {1, 0}, {100, 0}} {
		got := take(t, tier, k, hourly, test.n)
		if got.Permits != test.want {
			t.Errorf("Take(%d) = %d permits; want %d", test.n, got.Permits, test.want)
		}
		if none := test.want == 0; none != (got.RetryAfter > 0) || got.RetryAfter > time.Hour {
			t.Errorf("Take(%d) = %+v; want RetryAfter only without a permit, and at most an hour", test.n, got)
		}
	}
	// A different rate keeps the number of permits taken: the 10 taken leave 10 of a
	// burst of 20.
	twice := fleet.Rate{Permits: 1, Per: time.Minute, Burst: 20}
	if got := take(t, tier, k, twice, 100); got.Permits != 10 {
		t.Errorf("Take with a burst of 20 after 10 = %d; want 10", got.Permits)
	}
	// Permits leak by the clock: one per millisecond, and at least one for a caller
	// that returns after RetryAfter. How many are requested in that time depends on
	// the machine.
	quick := fleet.Rate{Permits: 1000, Per: time.Second, Burst: 5}
	begun, sum, told := time.Now(), 0, false
	for time.Since(begun) < 300*time.Millisecond {
		got := take(t, tier, key("quick"), quick, 3)
		if told && got.Permits == 0 {
			t.Errorf("Take after RetryAfter = %+v; want a permit", got)
		}
		sum += got.Permits
		if told = got.Permits == 0; told {
			<-time.After(got.RetryAfter)
		}
	}
	if most := 5 + int(time.Since(begun)/time.Millisecond) + 1; sum > most || sum < 5 {
		t.Errorf("%d permits; want the burst, and at most %d", sum, most)
	}
}

// Callers never get more than rate and burst allow, in any order, at rates whose
// permits do not take whole microseconds, and at large rates.
func TestTakeNeverTooMuch(t *testing.T) {
	s := redistest.Start(t, redistest.Redis(t))
	tiers := []fleet.Meter{open(t, s), open(t, s), open(t, s)}
	rates := []fleet.Rate{
		{Permits: 7, Per: 3 * time.Millisecond, Burst: 1}, {Permits: 3, Per: time.Second, Burst: 2},
		{Permits: 1e6, Per: time.Second, Burst: 10}, {Permits: 1, Per: 333 * time.Microsecond, Burst: 3},
		{Permits: 1e9, Per: 24 * time.Hour, Burst: 1e6}, {Permits: 5000, Per: time.Minute, Burst: 1 << 30},
		{Permits: 2, Per: time.Nanosecond, Burst: 100}, {Permits: 1, Per: 1<<63 - 1, Burst: 50},
	}
	var all sync.WaitGroup
	for i, r := range rates {
		var sum atomic.Int64
		all.Go(func() {
			begun := time.Now()
			var takers sync.WaitGroup
			for _, m := range tiers {
				takers.Go(func() {
					for range 200 {
						sum.Add(int64(take(t, m, key(fmt.Sprint(i)), r, 1+rand.IntN(2*min(r.Burst, 1000))).Permits))
					}
				})
			}
			takers.Wait()
			spent := time.Since(begun) + time.Microsecond // the engine's clock has whole microseconds
			most := float64(r.Burst) + float64(spent)*float64(r.Permits)/float64(r.Per)
			if got := sum.Load(); float64(got) > most || got < int64(min(r.Burst, 50)) {
				t.Errorf("%+v: %d permits in %v; want at most %v", r, got, spent, most)
			}
		})
	}
	all.Wait()
}

// Another program's value under a limiter's key is replaced, counted, and no outage.
func TestT11_AForeignValueUnderALimitersKeyIsReplaced(t *testing.T) {
	s := redistest.Start(t, redistest.Redis(t))
	told := 0
	tier := open(t, s, func(o *weirredis.Options) { o.Replaced = func(fleet.Key) { told++ } })
	rate := fleet.Rate{Permits: 1, Per: time.Hour, Burst: 10}
	keys := func() (all []string) {
		m := s.Do("KEYS", "*")
		list, err := m.AsStrSlice()
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	for name, foreign := range map[string][]string{
		"a text":              {"SET", "", "something else"},
		"a list":              {"RPUSH", "", "a", "b"},
		"a hash":              {"HSET", "", "x", "many", "at", "yesterday", "per", "hour"},
		"numbers that are no": {"HSET", "", "x", "inf", "at", "nan", "per", "0"},
		"a negative number":   {"HSET", "", "x", "-1e300"},
	} {
		t.Run(name, func(t *testing.T) {
			s.Do("FLUSHALL")
			take(t, tier, key("k"), rate, 3)
			all := keys()
			if len(all) != 1 {
				t.Fatalf("the keys are %q; want one", all)
			}
			s.Do("DEL", all[0])
			foreign[1] = all[0]
			s.Do(foreign...)
			if got := take(t, tier, key("k"), rate, 4); got.Permits != 4 || !got.Replaced {
				t.Errorf("Take = %+v; want 4 permits, and Replaced", got)
			}
			if got := take(t, tier, key("k"), rate, 100); got.Permits != 6 || got.Replaced {
				t.Errorf("the next Take = %+v; want the other 6 permits", got)
			}
			s.Do("FLUSHALL")
			spent, err := tier.Spend(t.Context(), key("k"), rate, 3)
			if err != nil {
				t.Fatal(err)
			}
			if all = keys(); len(all) != 1 {
				t.Fatalf("the keys are %q; want one", all)
			}
			s.Do("DEL", all[0])
			foreign[1] = all[0]
			s.Do(foreign...)
			if got, err := tier.Correct(t.Context(), key("k"), rate, 0, fleet.Correction{Mark: spent.Mark, Units: 3, Cost: 5}); err != nil || !got.Replaced {
				t.Errorf("Correct = %+v, %v; want Replaced", got, err)
			}
			s.Do("DEL", all[0])
			s.Do(foreign...)
			if got, err := tier.Spend(t.Context(), key("k"), rate, 10); err != nil || !got.OK || !got.Replaced {
				t.Errorf("Spend = %+v, %v; want all units, and Replaced", got, err)
			}
			if told != 3 {
				t.Errorf("Options.Replaced was called %d times; want 3", told)
			}
			told = 0
		})
	}
}
