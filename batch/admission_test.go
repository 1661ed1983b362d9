package batch_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir/batch"
	"github.com/weir-go/weir/limit"
)

// F3 and B4: a caller whose deadline comes before the waiting batch could be admitted
// cannot join it. It is rejected at once and its item does not run. The other callers
// are not affected.
func TestF3CallerWithAnEarlierDeadlineIsRefusedAtOnce(t *testing.T) {
	tell(t, func(s *story) {
		c, err := limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 1})
		if err != nil {
			s.Fatal(err)
		}
		tb := &table{takes: time.Second}
		b := s.batcher(tb, batch.Options{MaxSize: 10, MaxParallel: 2, Limiter: c})
		s.want(s.do(s.Context(), b, 1), 2, nil, time.Second) // twice the item; the limiter has measured 1 s
		busy := s.do(s.Context(), b, 2)
		s.at(1100 * ms)
		patient := s.do(s.Context(), b, 3) // its turn comes at 2 s
		s.at(1200 * ms)
		hasty := s.do(s.until(1900*ms), b, 4)
		joins := s.do(s.until(3500*ms), b, 5)
		s.want(hasty, 0, limit.ErrLimited, 1200*ms)
		s.want(busy, 4, nil, 2*time.Second)
		s.want(patient, 6, nil, 3*time.Second)
		s.want(joins, 10, nil, 3*time.Second)
		tb.want("[1] at 0s", "[2] at 1s", "[3 5] at 2s")
		if st := b.Stats(); st.Refused != 1 || st.Pending != 0 {
			s.Errorf("Stats = %+v; want 1 rejected, none pending", st)
		}
	})
}
