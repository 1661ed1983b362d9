package loads_test

import (
	"context"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/contract/rig"
	"github.com/weir-go/weir/limit"
)

// A limiter learns that the callers of a load have left, or that it has timed out, when that
// happens, although the function goes on.
func TestB9ALimiterLearnsThatALoadIsGivenUp(t *testing.T) {
	for name, o := range map[string]weir.Options{"its callers leave": {}, "its time is over": {LoadTimeout: 100 * time.Millisecond}} {
		t.Run(name, func(t *testing.T) {
			rig.Tell(t, func(s *rig.Story) {
				l := limit.Must(limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 4}))
				o.Limiter = l
				g := s.Guard(func(context.Context, string) (int, error) {
					time.Sleep(time.Second)
					return 1, nil
				}, o)
				ctx := s.Context()
				if o.LoadTimeout == 0 {
					ctx = s.Until(100 * time.Millisecond)
				}
				s.Get(ctx, g, "k")
				time.Sleep(99 * time.Millisecond)
				if st := l.Stats(); st.Late != 0 {
					t.Errorf("before: %d late calls; want 0", st.Late)
				}
				time.Sleep(2 * time.Millisecond)
				if st := l.Stats(); st.Late != 1 || st.InUse != 1 {
					t.Errorf("%d late calls, %d in use; want 1 that still runs", st.Late, st.InUse)
				}
				time.Sleep(time.Second)
				if st := l.Stats(); st.Late != 1 || st.InUse != 0 {
					t.Errorf("at the end: %d late calls, %d in use; want 1, counted once", st.Late, st.InUse)
				}
			})
		})
	}
}
