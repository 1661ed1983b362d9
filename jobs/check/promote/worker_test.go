package promote_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/promote"
	"github.com/weir-go/weir/limit"
)

// A write during the promoted load is not overwritten by that load, and the job's
// result is not older than the write.
func TestInvalidateDuringThePromotedLoad(t *testing.T) {
	for _, in := range []string{"one process", "a fleet"} {
		t.Run(in, func(t *testing.T) {
			s, q := newSource(), newQueue(t, open(t), jobs.QueueOptions{})
			o := weir.Options{Name: "calls", TTL: time.Hour}
			if in == "a fleet" {
				o.Fleet.Tier = fleet.NewMemory(fleet.MemoryOptions{})
			}
			g := newGuard(t, s, o)
			writer := g
			if in == "a fleet" {
				writer = newGuard(t, s, o)
			}
			p := newPromoter(t, g, q, promote.Options[string]{})
			w := work(t, p)
			job := promoted(t, p, "k")
			s.starts(t)
			eventually(t, "the worker has joined the load", func() bool { return g.Stats().Joins == 1 && w.Stats().Running == 1 })
			if err := writer.Invalidate(within(t), "k"); err != nil {
				t.Fatal(err)
			}
			s.says("old", nil)
			s.starts(t)
			s.says("new", nil)
			result(t, job, "new")
			v, none, err := p.Get(within(t), "k")
			got(t, v, none, err, "new")
			v, err = writer.Get(within(t), "k")
			if v != "new" || err != nil {
				t.Errorf("Get by the writer = %q, %v; want new", v, err)
			}
			wantLoads(t, s, 2)
		})
	}
}

func TestSetDuringThePromotedLoad(t *testing.T) {
	s, q := newSource(), newQueue(t, open(t), jobs.QueueOptions{})
	g := newGuard(t, s, weir.Options{TTL: time.Hour})
	p := newPromoter(t, g, q, promote.Options[string]{})
	work(t, p)
	job := promoted(t, p, "k")
	s.starts(t)
	eventually(t, "the worker has joined the load", func() bool { return g.Stats().Joins == 1 })
	if err := g.Set(within(t), "k", "set"); err != nil {
		t.Fatal(err)
	}
	s.says("old", nil)
	result(t, job, "set")
	v, none, err := p.Get(within(t), "k")
	got(t, v, none, err, "set")
	wantLoads(t, s, 1)
}

// A key that is written continuously still gets a result.
func TestResultOfAKeyThatIsAlwaysOvertaken(t *testing.T) {
	store := open(t)
	var g *weir.Guard[string, string]
	loads := 0
	g = weir.Must(weir.New(func(ctx context.Context, key string) (string, error) {
		loads++
		return "value", g.Invalidate(ctx, key)
	}, weir.Options{TTL: time.Hour}))
	defer g.Close(context.Background())
	p := newPromoter(t, g, newQueue(t, store, jobs.QueueOptions{}), promote.Options[string]{Budget: -1})
	defer stopNow(work(t, p))
	_, job, err := p.Get(within(t), "k")
	if err != nil {
		t.Fatal(err)
	}
	result(t, job, "value")
	if loads != 3 {
		t.Errorf("%d loads; want 3", loads)
	}
}

func TestErrorsOfThePromotedLoad(t *testing.T) {
	broken, odd := errors.New("broken"), errors.New("odd")
	tests := []struct {
		err   error
		state jobs.State
		after int
	}{
		{weir.ErrNotFound, jobs.StateFailed, 1},
		{broken, jobs.StateFailed, 1},
		{odd, jobs.StateDead, 2},
	}
	for _, tt := range tests {
		t.Run(tt.err.Error(), func(t *testing.T) {
			s, q := newSource(), newQueue(t, open(t), jobs.QueueOptions{MaxAttempts: 2, RetryInitial: ms})
			g := newGuard(t, s, weir.Options{Classify: func(err error) weir.Class {
				if errors.Is(err, broken) {
					return weir.ClassPermanent
				}
				return weir.ClassTransient
			}})
			p := newPromoter(t, g, q, promote.Options[string]{Budget: -1})
			_, job, err := p.Get(within(t), "k")
			if err != nil {
				t.Fatal(err)
			}
			s.says("", tt.err)
			s.says("", tt.err)
			work(t, p)
			var failed *jobs.JobError
			if v, err := job.Wait(within(t)); !errors.As(err, &failed) || failed.State != tt.state || failed.Attempt != tt.after {
				t.Errorf("Wait = %q, %v; want %s after %d attempts", v, err, tt.state, tt.after)
			}
		})
	}
}

// full returns a limiter whose only permit is taken, and a function that releases it.
func full(t *testing.T) (limit.Limiter, func()) {
	t.Helper()
	l, err := limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 1, Queue: -1})
	if err != nil {
		t.Fatal(err)
	}
	permit, err := l.Acquire(within(t))
	if err != nil {
		t.Fatal(err)
	}
	return l, func() { permit.Release(limit.Success) }
}

func TestRefusalIsPromoted(t *testing.T) {
	s, q := newSource(), newQueue(t, open(t), jobs.QueueOptions{MaxAttempts: 1})
	l, free := full(t)
	g := newGuard(t, s, weir.Options{TTL: time.Hour, Limiter: l})
	p := newPromoter(t, g, q, promote.Options[string]{})
	job := promoted(t, p, "k")
	work(t, p)
	eventually(t, "the worker is rejected", func() bool { return g.Stats().Refusals >= 2 })
	wantLoads(t, s, 0)

	// A caller with enough time waits for the job.
	s.says("value", nil)
	answers := make(chan error)
	go func() {
		v, job, err := p.GetWithin(within(t), "k", time.Hour)
		if v != "value" || job != nil {
			err = errors.Join(err, errors.New("no value"))
		}
		answers <- err
	}()
	eventually(t, "the second call shares the promotion", func() bool { return p.Stats().Shared == 1 })
	free()
	if err := <-answers; err != nil {
		t.Errorf("GetWithin(1h) = %v; want the value", err)
	}
	result(t, job, "value")
	if st, err := job.Status(within(t)); st.Attempt != 1 || err != nil {
		t.Errorf("Status: attempt %d, %v; want 1: a rejection is not an attempt", st.Attempt, err)
	}
	wantLoads(t, s, 1)
}

func TestRefuse(t *testing.T) {
	s, q := newSource(), newQueue(t, open(t), jobs.QueueOptions{})
	l, free := full(t)
	defer free()
	p := newPromoter(t, newGuard(t, s, weir.Options{Limiter: l}), q, promote.Options[string]{Refuse: true, Budget: time.Hour})
	if _, job, err := p.Get(within(t), "k"); job != nil || !errors.Is(err, limit.ErrLimited) {
		t.Errorf("Get = %v, %v; want ErrLimited", job, err)
	}
	if n := q.Stats().Submitted; n != 0 {
		t.Errorf("%d jobs; want none", n)
	}
}

func TestRefusedTwice(t *testing.T) {
	s, q := newSource(), newQueue(t, open(t), jobs.QueueOptions{MaxInput: 3})
	l, free := full(t)
	defer free()
	p := newPromoter(t, newGuard(t, s, weir.Options{Limiter: l}), q, promote.Options[string]{})
	_, job, err := p.Get(within(t), "too large")
	if job != nil || !errors.Is(err, jobs.ErrTooLarge) || !errors.Is(err, limit.ErrLimited) {
		t.Errorf("Get = %v, %v; want ErrTooLarge and ErrLimited", job, err)
	}
}

func TestStoppedWorkerHandsTheCallBack(t *testing.T) {
	s, q := newSource(), newQueue(t, open(t), jobs.QueueOptions{MaxAttempts: 2})
	l, free := full(t)
	g := newGuard(t, s, weir.Options{TTL: time.Hour, Limiter: l})
	p := newPromoter(t, g, q, promote.Options[string]{Budget: -1})
	_, job, err := p.Get(within(t), "k")
	if err != nil {
		t.Fatal(err)
	}
	w := work(t, p)
	eventually(t, "the worker is rejected", func() bool { return g.Stats().Refusals >= 1 })
	stopNow(w)
	if n := w.Stats().HandedBack; n != 1 {
		t.Errorf("%d jobs handed back; want 1", n)
	}
	free()
	s.says("value", nil)
	work(t, p)
	result(t, job, "value")
}
