package batch_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weir-go/weir/batch"
)

// E9: Close sends the collected items at once, waits for them, and rejects new items.
func TestE9CloseSendsOffWhatIsGathered(t *testing.T) {
	tell(t, func(s *story) {
		tb := &table{takes: time.Second}
		b := s.batcherFrom(batch.Source[int, int]{Scope: func(i int) any { return i % 2 }}, tb, batch.Options{Linger: time.Hour, MaxParallel: 1})
		one, two, three := s.do(s.Context(), b, 1), s.do(s.Context(), b, 2), s.do(s.Context(), b, 3)
		s.at(time.Second)
		closed := make(chan error, 1)
		go func() { closed <- b.Close(s.Context()) }()
		s.at(time.Second)
		s.want(s.do(s.Context(), b, 4), 0, batch.ErrClosed, time.Second)
		if err := <-closed; err != nil || s.now() != 3*time.Second {
			s.Errorf("Close = %v at %v; want nil at 3s", err, s.now())
		}
		for i, a := range []*answer{one, two, three} {
			if <-a.done; a.value != 2*(i+1) || a.err != nil {
				s.Errorf("Do(%d) = %d, %v; want %d, nil", i+1, a.value, a.err, 2*(i+1))
			}
		}
	})
}

// E9: when its context ends first, Close cancels the running calls and reports how
// many ignore it.
func TestE9CloseGivesUp(t *testing.T) {
	tell(t, func(s *story) {
		tb := &table{takes: time.Hour}
		b := s.batcher(tb, batch.Options{MaxSize: 1, MaxParallel: 2, Timeout: -1})
		heeds := s.do(s.Context(), b, 1)
		tb.deaf = true
		deaf, waits := s.do(s.Context(), b, 2), s.do(s.Context(), b, 3)
		err := b.Close(s.until(time.Second))
		var e *batch.CloseError
		if !errors.As(err, &e) || e.Running != 1 || e.Canceled != 3 || !errors.Is(err, context.DeadlineExceeded) || s.now() != 1100*ms {
			s.Errorf("Close = %v at %v; want 3 canceled, 1 still running, at 1.1s", err, s.now())
		}
		for _, a := range []*answer{heeds, deaf} {
			s.want(a, 0, batch.ErrClosed, time.Second)
			s.want(a, 0, batch.ErrUnknown, time.Second)
		}
		s.want(waits, 0, batch.ErrClosed, time.Second)
		if errors.Is(waits.err, batch.ErrUnknown) {
			s.Errorf("Do = %v; want an error other than ErrUnknown: the item never ran", waits.err)
		}
		if len(tb.causes) != 1 || tb.causes[0] != batch.ErrClosed {
			s.Errorf("causes = %v; want ErrClosed", tb.causes)
		}
		if err := b.Close(context.Background()); err != nil || s.now() != time.Hour {
			s.Errorf("Close = %v at %v; want nil at 1h", err, s.now())
		}
	})
}

func TestE9CloseOfAnIdleBatcher(t *testing.T) {
	tell(t, func(s *story) {
		ctx, cancel := context.WithCancel(s.Context())
		cancel()
		b := s.batcher(&table{}, batch.Options{})
		for range 2 {
			if err := b.Close(ctx); err != nil {
				s.Errorf("Close = %v; want nil", err)
			}
		}
	})
}
