package periodic

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/internal/ledger"
	"github.com/weir-go/weir/jobs/internal/wait"
)

// A Scheduler submits the jobs of schedules. Create it with New, in each instance of the
// program. It is safe for concurrent use. It has a goroutine per schedule until Close.
type Scheduler struct {
	o       Options
	runners []*runner

	stop, hurry context.CancelCauseFunc // no more ticks; operations of the Store end
	all         sync.WaitGroup
}

// New starts the schedules. It does not wait for the Store. It returns all faults of the
// options and the schedules at once, each an [*OptionError]. Without schedules it does
// nothing.
func New(store *jobs.Store, schedules []Schedule, o Options) (*Scheduler, error) {
	o = o.withDefaults()
	ready := make([]Schedule, len(schedules))
	for i, s := range schedules {
		ready[i] = s.withDefaults()
	}
	specs, err := parse(store, ready, o)
	if err != nil {
		return nil, err
	}
	return start(ledger.Of(store), ready, specs, o), nil
}

// start starts checked schedules.
func start(l ledger.Ledger, schedules []Schedule, specs []*spec, o Options) *Scheduler {
	s := &Scheduler{o: o}
	stopped, stop := context.WithCancelCause(context.Background())
	ctx, hurry := context.WithCancelCause(context.Background())
	s.stop, s.hurry = stop, hurry
	slots := make(chan struct{}, o.Concurrency)
	for i, one := range schedules {
		r := &runner{schedule: one, spec: specs[i], ledger: l, o: &s.o, slots: slots}
		r.status = Status{Name: one.Name, Spec: r.spec.text, Zone: r.spec.loc.String()}
		s.runners = append(s.runners, r)
		s.all.Go(func() { r.run(stopped, ctx) })
	}
	return s
}

// Stats returns the Status of each schedule, in the order that New received them. After
// Close it returns the last ones.
func (s *Scheduler) Stats() []Status {
	all := make([]Status, len(s.runners))
	for i, r := range s.runners {
		r.mu.Lock()
		all[i] = r.status
		r.mu.Unlock()
	}
	return all
}

// Close ends the schedules. Ticks that are being submitted are completed. It waits until
// ctx ends, interrupts what is left, and returns the cause of ctx; another instance, or
// the next start, completes an interrupted tick. Close the Store after it. Close can be
// called again.
func (s *Scheduler) Close(ctx context.Context) error {
	s.stop(ErrClosed)
	err := wait.For(ctx, s.all.Wait)
	s.hurry(ErrClosed)
	return err
}

// Ticks returns the first n ticks after an instant of a Schedule's Spec and Zone, or
// fewer if there are no more. Use it to show or test an expression. n is at most 1000.
func Ticks(spec, zone string, after time.Time, n int) ([]time.Time, error) {
	s, err := parseSpec(spec, zone)
	if err != nil {
		return nil, fmt.Errorf("periodic: %q: %w", spec, err)
	}
	if n < 0 || n > maxTicks {
		return nil, &OptionError{Package: "periodic", Field: "n", Value: n, Bound: fmt.Sprintf("from 0 to %d", maxTicks)}
	}
	var all []time.Time
	for range n {
		t, ok := s.next(after)
		if !ok {
			break
		}
		all, after = append(all, t.In(s.loc)), t
	}
	return all, nil
}

const maxTicks = 1000
