package batch_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir/batch"
	"github.com/weir-go/weir/limit"
)

// F3 and B4: a caller that would join a batch which waits for admission, and
// could not be admitted in the caller's time, is refused at once, and its item
// is not run. The others are not disturbed.
func TestF3CallerWithAnEarlierDeadlineIsRefusedAtOnce(t *testing.T) {
	tell(t, func(s *story) {
		c, err := limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 1})
		if err != nil {
			s.Fatal(err)
		}
		tb := &table{takes: time.Second}
		b := s.batcher(tb, batch.Options{MaxSize: 10, MaxParallel: 2, Limiter: c})
		s.want(s.do(s.Context(), b, 1), 2, nil, time.Second) // twice the item; a bulk call takes 1 s: measured
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
			s.Errorf("Stats = %+v; want 1 refused, none pending", st)
		}
	})
}
