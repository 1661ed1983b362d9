package promises

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// A source is what the loads read. Its content changes while they run.
type source struct{ content atomic.Value }

// slowRead reads at once and takes 100 ms to return the value.
func (s *source) slowRead(context.Context, int) (string, error) {
	v := s.content.Load().(string)
	time.Sleep(100 * ms)
	return v, nil
}

func deleteAbsent(l Library) verdict {
	var src source
	src.content.Store("old")
	s := set(l, Setup[string]{}, src.slowRead)
	if s.Forget == nil {
		return notApplicable("nothing can be deleted")
	}
	s.ask(context.Background(), "asked at once")
	s.ask(context.Background(), "asked later")
	return deleteDuring(s, &src, 2)
}

// refreshAge is the age from which hits start refreshes.
const refreshAge = TTL / 2

func deletePresent(l Library) verdict {
	if !l.Stores {
		return notApplicable("keeps no values")
	}
	var src source
	src.content.Store("old")
	s := set(l, Setup[string]{RefreshFrom: refreshAge}, src.slowRead)
	if s.Forget == nil {
		return notApplicable("nothing can be deleted")
	}
	for round := range 2 { // in the second round, the call is a hit and starts a refresh
		time.Sleep(time.Duration(round) * (refreshAge + time.Minute))
		for _, key := range []string{"asked at once", "asked later"} {
			if c := s.ask(context.Background(), key); !c.got("old") {
				return broken("before the deletion: " + c.outcome())
			}
		}
	}
	return deleteDuring(s, &src, 4)
}

// deleteDuring deletes two keys in the middle of their loads, once the given number
// of loads have begun. One key is requested at once. The other is requested only
// after the old load has ended, so that no new value hides what the old load left
// behind.
func deleteDuring(s *stage, src *source, loads int64) verdict {
	time.Sleep(50 * ms)
	if n := s.loads.Load(); n != loads {
		return broken(fmt.Sprintf("%d loads have begun instead of %d", n, loads))
	}
	src.content.Store("new")
	s.Forget("asked at once")
	s.Forget("asked later")
	atOnce := s.ask(context.Background(), "asked at once")
	time.Sleep(time.Second)
	later := s.ask(context.Background(), "asked later")
	var notes []string
	if !atOnce.got("new") {
		notes = append(notes, "during the old load: "+atOnce.outcome())
	}
	if !later.got("new") {
		notes = append(notes, "after the old load: "+later.outcome())
	}
	return broken(notes...)
}

func stormOneKey(l Library) verdict { return storm(l, 1) }

func stormManyKeys(l Library) verdict { return storm(l, 1000) }

// storm hits stale values 1,000 times, spread over keys, while no refresh ends.
func storm(l Library, keys int) verdict {
	if !l.Stores {
		return notApplicable("keeps no values")
	}
	const hits, bound = 1000, 64
	var slow atomic.Bool
	s := set(l, Setup[string]{RefreshFrom: refreshAge}, func(context.Context, int) (string, error) {
		if slow.Load() {
			time.Sleep(time.Second)
		}
		return "value", nil
	})
	key := func(i int) string { return fmt.Sprint("k", i%keys) }
	for i := range keys {
		if c := s.ask(context.Background(), key(i)); !c.got("value") {
			return broken("load: " + c.outcome())
		}
	}
	time.Sleep(refreshAge + time.Minute)
	slow.Store(true)
	s.loads.Store(0)
	before := runtime.NumGoroutine()
	var done sync.WaitGroup
	for i := range hits {
		done.Go(func() { s.Get(context.Background(), key(i)) })
	}
	done.Wait()
	time.Sleep(ms) // goroutines that have returned their results have ended
	extra := runtime.NumGoroutine() - before
	if loads := int(s.loads.Load()); loads > min(keys, bound) || extra > min(keys, bound)+1 {
		return broken(fmt.Sprintf("%d loads at once on %d goroutines", loads, extra))
	}
	return kept()
}
