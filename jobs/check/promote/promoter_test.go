package promote_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/promote"
	"github.com/weir-go/weir/limit"
)

func TestAnswerInTimeIsNoJob(t *testing.T) {
	s, q := newSource(), newQueue(t, open(t), jobs.QueueOptions{})
	p := newPromoter(t, newGuard(t, s, weir.Options{TTL: time.Hour}), q, promote.Options[string]{Budget: time.Hour})
	s.says("value", nil)
	for range 2 { // first a load, then a hit
		v, job, err := p.Get(within(t), "k")
		got(t, v, job, err, "value")
	}
	wantLoads(t, s, 1)
	if n := q.Stats().Submitted; n != 0 {
		t.Errorf("%d jobs; want none", n)
	}
}

func TestErrorsInTimeGoToTheCaller(t *testing.T) {
	s, q := newSource(), newQueue(t, open(t), jobs.QueueOptions{})
	p := newPromoter(t, newGuard(t, s, weir.Options{}), q, promote.Options[string]{Budget: time.Hour})
	for _, want := range []error{errors.New("no luck"), weir.ErrNotFound, context.DeadlineExceeded} {
		s.says("", want)
		if v, job, err := p.Get(within(t), "k"); v != "" || job != nil || !errors.Is(err, want) {
			t.Errorf("Get = %q, %v, %v; want %v", v, job, err, want)
		}
	}
	if n := q.Stats().Submitted; n != 0 {
		t.Errorf("%d jobs; want none", n)
	}
}

func TestPromotedWhileRunningLoadsOnce(t *testing.T) {
	s, q := newSource(), newQueue(t, open(t), jobs.QueueOptions{})
	g := newGuard(t, s, weir.Options{TTL: time.Hour})
	p := newPromoter(t, g, q, promote.Options[string]{})
	work(t, p)
	job := promoted(t, p, "k")
	s.starts(t)
	eventually(t, "the worker has joined the load", func() bool { return g.Stats().Joins == 1 })
	s.says("value", nil)
	result(t, job, "value")
	wantLoads(t, s, 1)
	v, again, err := p.Get(within(t), "k")
	got(t, v, again, err, "value")
	eventually(t, "no job is pending", func() bool { st := p.Stats(); return st.Pending == 0 && st.Kept == 0 })
}

func TestLoadGoesOnWithoutAWorker(t *testing.T) {
	s, q := newSource(), newQueue(t, open(t), jobs.QueueOptions{})
	g := newGuard(t, s, weir.Options{TTL: time.Hour})
	p := newPromoter(t, g, q, promote.Options[string]{})
	job := promoted(t, p, "k")
	s.starts(t)
	if st := p.Stats(); st.Kept != 1 || st.Pending != 1 {
		t.Errorf("Stats = %+v; want one load kept, one job pending", st)
	}
	s.says("value", nil)
	v, none, err := p.GetWithin(within(t), "k", time.Hour)
	got(t, v, none, err, "value")
	if st, err := job.Status(within(t)); st.State != jobs.StateQueued || err != nil {
		t.Errorf("Status = %v, %v; want queued", st.State, err)
	}
	work(t, p) // runs later, and gets the value from memory
	result(t, job, "value")
	wantLoads(t, s, 1)
	if n := s.left.Load(); n != 0 {
		t.Errorf("%d loads were canceled; want none", n)
	}
}

func TestCallerWhoLeavesIsNotPromoted(t *testing.T) {
	s, q := newSource(), newQueue(t, open(t), jobs.QueueOptions{})
	p := newPromoter(t, newGuard(t, s, weir.Options{}), q, promote.Options[string]{Budget: time.Hour})
	why := errors.New("gone")
	ctx, leave := context.WithCancelCause(context.Background()) // without a deadline
	go func() { <-s.started; leave(why) }()
	if _, job, err := p.Get(ctx, "k"); job != nil || err != why {
		t.Errorf("Get = %v, %v; want %v", job, err, why)
	}
	if _, job, err := p.Get(ctx, "k"); job != nil || err != why {
		t.Errorf("Get with a context that has ended = %v, %v; want %v", job, err, why)
	}
	eventually(t, "the load is canceled", func() bool { return s.left.Load() == 1 })
	wantLoads(t, s, 1)
	if n := q.Stats().Submitted; n != 0 {
		t.Errorf("%d jobs; want none", n)
	}
}

// An openLimiter admits every caller, and records each one's deadline.
type openLimiter struct{ until chan time.Time }

func (d openLimiter) Acquire(ctx context.Context) (limit.Permit, error) {
	until, _ := ctx.Deadline()
	d.until <- until
	return limit.Permit{}, nil
}

// The deadline of a caller that will not be promoted is passed to the Guard's
// limiter, which may reject a load that cannot finish in time. The deadline of a
// caller that will be promoted is not passed on, and does not end the load.
func TestDeadlineBeforeTheBudgetIsTheLimiters(t *testing.T) {
	s, q, l := newSource(), newQueue(t, open(t), jobs.QueueOptions{}), openLimiter{make(chan time.Time, 2)}
	p := newPromoter(t, newGuard(t, s, weir.Options{Limiter: l}), q, promote.Options[string]{})
	ctx, leave := context.WithCancel(within(t)) // its deadline is far away
	go func() { <-s.started; leave() }()
	if _, job, err := p.GetWithin(ctx, "sooner", time.Hour); job != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("GetWithin = %v, %v; want Canceled", job, err)
	}
	eventually(t, "the load is canceled", func() bool { return s.left.Load() == 1 })
	if want, _ := ctx.Deadline(); !(<-l.until).Equal(want) {
		t.Errorf("the limiter did not get the deadline %v", want)
	}

	ctx, leave = context.WithCancel(within(t))
	defer leave()
	_, job, err := p.GetWithin(ctx, "later", 5*ms)
	if job == nil || err != nil {
		t.Fatalf("GetWithin = %v, %v; want a job", job, err)
	}
	if until := <-l.until; !until.IsZero() {
		t.Errorf("the limiter got the deadline %v; want none", until)
	}
	leave()
	if st := p.Stats(); st.Kept != 1 || s.left.Load() != 1 {
		t.Errorf("Stats = %+v, %d loads canceled; want one kept, one canceled earlier", st, s.left.Load())
	}
}

func TestDeadlineEndsAGetThatIsNotPromoted(t *testing.T) {
	s, q := newSource(), newQueue(t, open(t), jobs.QueueOptions{})
	p := newPromoter(t, newGuard(t, s, weir.Options{}), q, promote.Options[string]{})
	ctx, cancel := context.WithTimeout(within(t), 20*ms)
	defer cancel()
	if _, job, err := p.GetWithin(ctx, "k", time.Hour); job != nil || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("GetWithin = %v, %v; want DeadlineExceeded", job, err)
	}
	if n := q.Stats().Submitted; n != 0 {
		t.Errorf("%d jobs; want none", n)
	}
}

func TestLaterCallersShareThePromotion(t *testing.T) {
	s, q := newSource(), newQueue(t, open(t), jobs.QueueOptions{})
	p := newPromoter(t, newGuard(t, s, weir.Options{TTL: time.Hour}), q, promote.Options[string]{})
	first := promoted(t, p, "k")
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			if _, job, err := p.GetWithin(within(t), "k", 5*ms); err != nil || job == nil || job.ID() != first.ID() {
				t.Errorf("GetWithin = %v, %v; want job %s", job, err, first.ID())
			}
		})
	}
	all.Wait()
	if st := q.Stats(); st.Submitted != 1 || st.Joined != 0 {
		t.Errorf("queue's Stats = %+v; want one Submit", st)
	}
	if st := p.Stats(); st.Promoted != 1 || st.Shared != 10 || st.Kept != 1 {
		t.Errorf("Stats = %+v; want one promoted, ten shared, one kept", st)
	}
	for range 10 { // callers with more time get the value
		all.Go(func() {
			v, job, err := p.GetWithin(within(t), "k", time.Hour)
			got(t, v, job, err, "value")
		})
	}
	s.says("value", nil)
	all.Wait()
	work(t, p)
	result(t, first, "value")
	wantLoads(t, s, 1)
}

// A finished job is begun again: the Guard decides whether its value is still fresh.
func TestDoneJobIsBegunAnew(t *testing.T) {
	s, q := newSource(), newQueue(t, open(t), jobs.QueueOptions{})
	p := newPromoter(t, newGuard(t, s, weir.Options{}), q, promote.Options[string]{})
	work(t, p)
	for _, value := range []string{"one", "two"} {
		job := promoted(t, p, "k")
		s.starts(t)
		s.says(value, nil)
		s.says(value, nil) // in case the worker came too late to join
		result(t, job, value)
		eventually(t, "the Promoter knows that the job is over", func() bool { return p.Stats().Pending == 0 })
		for len(s.answers) > 0 {
			<-s.answers
		}
	}
}

func TestFleetLoadsOnce(t *testing.T) {
	store, tier, s := open(t), fleet.NewMemory(fleet.MemoryOptions{}), newSource()
	o := weir.Options{Name: "calls", TTL: time.Hour, Fleet: weir.Fleet{Config: fleet.Config{Tier: tier}}}
	q := newQueue(t, store, jobs.QueueOptions{})
	here := newPromoter(t, newGuard(t, s, o), q, promote.Options[string]{})
	there := newPromoter(t, newGuard(t, s, o), q, promote.Options[string]{})
	work(t, there) // the worker runs in another process than the load
	first := promoted(t, here, "k")
	second := promoted(t, there, "k")
	if first.ID() != second.ID() || !second.Joined() {
		t.Errorf("the second job is %s, joined %t; want %s, joined", second.ID(), second.Joined(), first.ID())
	}
	s.starts(t)
	s.says("value", nil)
	result(t, first, "value")
	for _, p := range []*promote.Promoter[string, string]{here, there} {
		v, job, err := p.Get(within(t), "k")
		got(t, v, job, err, "value")
	}
	wantLoads(t, s, 1)
}

func TestRestartLoadsAgain(t *testing.T) {
	dir := t.TempDir()
	store, end := openIn(t, dir)
	before := newSource()
	g := newGuard(t, before, weir.Options{TTL: time.Hour})
	p := newPromoter(t, g, newQueue(t, store, jobs.QueueOptions{}), promote.Options[string]{})
	w := work(t, p)
	job := promoted(t, p, "k")
	before.starts(t)
	eventually(t, "the attempt runs", func() bool { return w.Stats().Running == 1 })
	stopNow(w)
	p.Close(context.Background())
	g.Close(within(t))
	end()

	store, end = openIn(t, dir)
	defer end()
	after := newSource()
	q := newQueue(t, store, jobs.QueueOptions{})
	p = newPromoter(t, newGuard(t, after, weir.Options{TTL: time.Hour}), q, promote.Options[string]{})
	w = work(t, p)
	defer stopNow(w)
	after.starts(t)
	again := promoted(t, p, "k")
	if again.ID() != job.ID() {
		t.Errorf("the job is %s; want %s", again.ID(), job.ID())
	}
	after.says("value", nil)
	result(t, again, "value")
	wantLoads(t, before, 1)
	wantLoads(t, after, 1)
}

func TestBudget(t *testing.T) {
	for _, budget := range []time.Duration{0, -1, 1, ms} {
		t.Run(budget.String(), func(t *testing.T) {
			s, q := newSource(), newQueue(t, open(t), jobs.QueueOptions{})
			g := newGuard(t, s, weir.Options{TTL: time.Hour})
			p := newPromoter(t, g, q, promote.Options[string]{})
			v, job, err := p.GetWithin(within(t), "k", budget)
			if v != "" || job == nil || err != nil {
				t.Fatalf("GetWithin = %q, %v, %v; want a job", v, job, err)
			}
			if n := s.loads.Load(); budget <= 0 && n != 0 {
				t.Errorf("%d loads; want none without a budget", n)
			}
			work(t, p)
			s.starts(t)
			s.says("value", nil)
			result(t, job, "value")
			v, job, err = p.GetWithin(within(t), "k", budget)
			got(t, v, job, err, "value")
			wantLoads(t, s, 1)
		})
	}
}

func TestNegativeBudgetOption(t *testing.T) {
	s, q := newSource(), newQueue(t, open(t), jobs.QueueOptions{})
	p := newPromoter(t, newGuard(t, s, weir.Options{}), q, promote.Options[string]{Budget: -1})
	if _, job, err := p.Get(within(t), "k"); job == nil || err != nil {
		t.Fatalf("Get = %v, %v; want a job", job, err)
	}
	wantLoads(t, s, 0)
}

func TestSubmitFails(t *testing.T) {
	s, q := newSource(), newQueue(t, open(t), jobs.QueueOptions{MaxQueued: 1})
	p := newPromoter(t, newGuard(t, s, weir.Options{TTL: time.Hour}), q, promote.Options[string]{})
	promoted(t, p, "fills")
	var full *jobs.FullError
	eventually(t, "the queue is full", func() bool {
		_, _, err := p.GetWithin(within(t), "k", 5*ms)
		return errors.As(err, &full)
	})
	if full.Reason != jobs.FullLength || full.RetryAfter <= 0 {
		t.Errorf("Get = %v; want the queue's length as the reason, and a time to retry", full)
	}
	// The load continues for callers that come back.
	if n := p.Stats(); n.Kept < 2 || n.Failed == 0 {
		t.Errorf("Stats = %+v; want both loads kept", n)
	}
	s.says("value", nil)
	s.says("value", nil)
	v, job, err := p.GetWithin(within(t), "k", time.Hour)
	got(t, v, job, err, "value")
}

func TestMaxPromoted(t *testing.T) {
	s, q := newSource(), newQueue(t, open(t), jobs.QueueOptions{})
	p := newPromoter(t, newGuard(t, s, weir.Options{TTL: time.Hour}), q, promote.Options[string]{MaxPromoted: 1})
	promoted(t, p, "kept")
	job := promoted(t, p, "not kept")
	eventually(t, "its load is canceled", func() bool { return s.left.Load() == 1 })
	promoted(t, p, "not kept")
	if st := q.Stats(); st.Submitted != 2 || st.Joined != 1 {
		t.Errorf("queue's Stats = %+v; want two Submits, and one that joined", st)
	}
	if st := p.Stats(); st.Kept != 1 || st.Pending != 1 || st.Unkept == 0 {
		t.Errorf("Stats = %+v; want only one kept", st)
	}
	for range 3 {
		s.says("value", nil)
	}
	work(t, p)
	result(t, job, "value")
}

func TestClose(t *testing.T) {
	s, q := newSource(), newQueue(t, open(t), jobs.QueueOptions{})
	g := newGuard(t, s, weir.Options{TTL: time.Hour})
	p := newPromoter(t, g, q, promote.Options[string]{})
	if err := g.Set(within(t), "held", "value"); err != nil {
		t.Fatal(err)
	}
	promoted(t, p, "k")
	s.starts(t)
	waiting := make(chan error)
	go func() {
		_, job, err := p.GetWithin(context.Background(), "other", time.Hour)
		if job != nil {
			err = fmt.Errorf("job %s", job.ID())
		}
		waiting <- err
	}()
	s.starts(t)
	p.Close(context.Background())
	p.Close(context.Background())
	if err := <-waiting; err != promote.ErrClosed {
		t.Errorf("a waiting Get returns %v; want ErrClosed", err)
	}
	eventually(t, "both loads are canceled", func() bool { return s.left.Load() == 2 })
	for _, budget := range []time.Duration{-1, time.Hour} {
		if _, _, err := p.GetWithin(within(t), "k", budget); err != promote.ErrClosed {
			t.Errorf("GetWithin(%v) after Close = %v; want ErrClosed", budget, err)
		}
	}
	v, job, err := p.Get(within(t), "held")
	got(t, v, job, err, "value")
	if st := p.Stats(); st.Pending != 0 || st.Kept != 0 {
		t.Errorf("Stats after Close = %+v; want nothing pending or kept", st)
	}
}

func TestPanicOfAHookIsAnError(t *testing.T) {
	q := newQueue(t, open(t), jobs.QueueOptions{})
	g, err := weir.NewFrom(weir.Source[string, string]{
		Load:  func(context.Context, string) (string, error) { return "value", nil },
		Clone: func(string) string { panic("no copy") },
	}, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close(context.Background())
	p := newPromoter(t, g, q, promote.Options[string]{Budget: time.Hour})
	var fault *weir.PanicError
	if _, job, err := p.Get(within(t), "k"); job != nil || !errors.As(err, &fault) || fault.Value != "no copy" {
		t.Errorf("Get = %v, %v; want a PanicError", job, err)
	}
}
