package jobs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/jobs"
)

func limited(key, in string) submission {
	return submission{Input: in, Options: jobs.SubmitOptions{LimitKey: key}}
}

// A gauge counts what runs at once, by key.
type gauge struct {
	mu        sync.Mutex
	now, most map[string]int // guarded by mu
}

func newGauge() *gauge { return &gauge{now: make(map[string]int), most: make(map[string]int)} }

func (g *gauge) add(key string, n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now[key] += n
	g.most[key] = max(g.most[key], g.now[key])
}

// J27: of the jobs with one LimitKey at most N run at once, in all Workers together.
// Other keys have their own limits, and jobs without a key have none.
func TestJ27_NAtOncePerKey(t *testing.T) {
	r := contract(t)
	o := jobs.QueueOptions{KeyLimit: jobs.KeyLimit{Concurrency: 2}, KeyLimits: map[string]jobs.KeyLimit{"big": {Concurrency: 5}}}
	q := r.queue(o)
	g := newGauge()
	var all []submission
	for range 20 {
		all = append(all, limited("small", "small"), limited("big", "big"), limited("", "none"))
	}
	handles := r.wantMany(q, all...)
	h := func(_ context.Context, j *stringJob) (string, error) {
		g.add(j.Input, 1)
		defer g.add(j.Input, -1)
		r.pass(20 * time.Millisecond)
		return j.Input, nil
	}
	for range 2 {
		r.work(r.queueOn(r.open(jobs.StoreOptions{}), o), jobs.WorkerOptions{Concurrency: 20}, h)
	}
	for i, h := range handles {
		r.wantResult(h, all[i].Input)
		if s := r.status(h); s.LimitKey != all[i].Options.LimitKey || s.Attempt != 1 {
			t.Errorf("Status = %+v; want the LimitKey, and one attempt", s)
		}
	}
	if g.most["small"] > 2 || g.most["big"] > 5 || g.most["big"] <= 2 || g.most["none"] <= 5 {
		t.Errorf("at once %v; want at most 2 small, 3 to 5 big, and more than 5 without a key", g.most)
	}
}

// J27: attempts of one LimitKey start no faster than its rate, and all of them start.
func TestJ27_StartsPerSecond(t *testing.T) {
	r := contract(t)
	const rate, burst, n = 20, 3, 30
	o := jobs.QueueOptions{KeyLimit: jobs.KeyLimit{PerSecond: rate, Burst: burst}}
	q := r.queue(o)
	var all []submission
	for range n {
		all = append(all, limited("k", "in"))
	}
	all = append(all, limited("other", "in"))
	handles := r.wantMany(q, all...)
	var log contractLog
	began := time.Now() // no attempt has started
	for range 2 {
		r.work(r.queueOn(r.open(jobs.StoreOptions{}), o), jobs.WorkerOptions{Concurrency: 20}, log.echo)
	}
	for _, h := range handles {
		r.wantResult(h, "in")
	}
	starts := 0
	for i := range log.at {
		if log.seen[i].ID == handles[n].ID() {
			continue
		}
		starts++
		// The server's clock may be read late, which only makes starts later.
		if most := burst + log.at[i].Sub(began).Seconds()*rate; float64(starts) > most+1e-6 {
			t.Errorf("%d starts within %v; want at most %.1f", starts, log.at[i].Sub(began), most)
		}
	}
}

// J27: the place of a worker that was killed is free after the lease, whether its job
// runs again or was canceled in the meantime.
func TestJ27_ADeadWorkersPlaceIsFree(t *testing.T) {
	for _, cancel := range []bool{false, true} {
		t.Run(fmt.Sprint("canceled ", cancel), func(t *testing.T) {
			r := contract(t)
			o := jobs.QueueOptions{Lease: time.Second, KeyLimit: jobs.KeyLimit{Concurrency: 1}}
			q := r.queue(o)
			first := r.submit(q, "first", jobs.SubmitOptions{LimitKey: "k"})
			c := r.child(childTask{Do: "work", Lease: time.Second, KeyLimit: o.KeyLimit})
			c.line("attempt")
			second := r.submit(q, "second", jobs.SubmitOptions{LimitKey: "k"})
			var log contractLog
			w := r.work(q, jobs.WorkerOptions{}, log.echo)
			r.eventually("the second job waits", func() bool { return w.Stats().Parked > 0 })
			if n := len(log.all()); n != 0 {
				t.Fatalf("%d attempts beside the first job; want none", n)
			}
			c.kill()
			if cancel {
				if err := r.cancel(first); err != nil {
					t.Fatal(err)
				}
			} else {
				r.wantResult(first, "first")
			}
			r.wantResult(second, "second")
		})
	}
}

// J27: jobs that wait cost little: they are not looked at again and again.
func TestJ27_WaitingIsCheap(t *testing.T) {
	r := contract(t)
	const n = 500
	o := jobs.QueueOptions{KeyLimit: jobs.KeyLimit{Concurrency: 1}}
	q := r.queue(o)
	started, let := make(chan struct{}), make(chan struct{})
	var once sync.Once
	var all []submission
	for range n {
		all = append(all, limited("k", "in"))
	}
	handles := r.wantMany(q, all...)
	began := time.Now()
	w := r.work(q, jobs.WorkerOptions{}, func(_ context.Context, j *stringJob) (string, error) {
		once.Do(func() { close(started); <-let })
		return j.Input, nil
	})
	<-started
	r.eventually("all others wait", func() bool { return w.Stats().Parked >= n-1 })
	r.pass(3 * time.Second)
	// Each job is delivered once, and then once in 2.5 to 5 s.
	if parked, most := w.Stats().Parked, 2*n+time.Since(began).Seconds()/2.5*n; float64(parked) > most {
		t.Errorf("%d jobs were parked %d times in %v; want at most %.0f", n, parked, time.Since(began), most)
	}
	close(let)
	for _, h := range handles {
		r.wantResult(h, "in")
	}
	t.Logf("parked %d times until the end", w.Stats().Parked)
}

// J27: a program from before LimitKey leaves such a job where it is: its format is 2.
func TestJ27_LimitsAreChecked(t *testing.T) {
	r := contract(t)
	for _, l := range []jobs.KeyLimit{
		{Concurrency: -1}, {Concurrency: jobs.MaxKeyConcurrency + 1}, {PerSecond: -1}, {PerSecond: 1e-9}, {PerSecond: jobs.MaxKeyRate + 1}, {Burst: 1},
	} {
		_, err := jobs.NewQueue[int, int](t.Context(), r.store, "bad", jobs.QueueOptions{KeyLimit: l})
		_, err2 := jobs.NewQueue[int, int](t.Context(), r.store, "bad", jobs.QueueOptions{KeyLimits: map[string]jobs.KeyLimit{"k": l}})
		if !errors.As(err, new(*jobs.OptionError)) || !errors.As(err2, new(*jobs.OptionError)) || !strings.Contains(err2.Error(), `KeyLimits["k"].`) {
			t.Errorf("NewQueue with %+v = %v, %v; want an *OptionError that names the field", l, err, err2)
		}
	}
	q := r.queue(jobs.QueueOptions{})
	if _, err := q.Submit(t.Context(), "in", jobs.SubmitOptions{LimitKey: strings.Repeat("k", jobs.MaxKey+1)}); !errors.As(err, new(*jobs.OptionError)) {
		t.Errorf("Submit with a long LimitKey = %v; want an *OptionError", err)
	}
}

// limitOf is what the workers of the history run under.
var limitOf = jobs.KeyLimit{Concurrency: 3}

const limitLease = 3 * time.Second

// workLimited is the worker of the history, in a child: it prints when a job begins and
// ends, by the machine's clock.
func (task childTask) workLimited(store *jobs.Store) error {
	q, err := jobs.NewQueue[string, string](context.Background(), store, "q", jobs.QueueOptions{
		Lease: limitLease, MaxAttempts: 100, MaxCrashes: 100, RetryInitial: 10 * time.Millisecond, KeyLimit: limitOf})
	if err != nil {
		return err
	}
	var mu sync.Mutex
	out := json.NewEncoder(os.Stdout)
	print := func(e limitEvent) {
		mu.Lock()
		defer mu.Unlock()
		e.At = time.Now()
		out.Encode(e)
	}
	_, err = q.Work(func(ctx context.Context, j *stringJob) (string, error) {
		print(limitEvent{Job: j.ID, Key: j.Input, Begin: true})
		defer print(limitEvent{Job: j.ID, Key: j.Input})
		select {
		case <-time.After(rand.N(100 * time.Millisecond)):
		case <-ctx.Done():
		}
		if rand.N(5) == 0 {
			return "", errors.New("failed")
		}
		return j.Input, ctx.Err()
	}, jobs.WorkerOptions{Concurrency: 10})
	if err != nil {
		return err
	}
	fmt.Println("working")
	select {}
}

// A limitEvent is a line of such a worker.
type limitEvent struct {
	Job, Key string
	Begin    bool
	At       time.Time
}

// J27: with workers killed at random, never more than N jobs of a key run at once, and
// all of them are done.
func TestJ27_RandomHistoryOfKilledWorkers(t *testing.T) {
	r := contract(t)
	q := r.queue(jobs.QueueOptions{Lease: limitLease})
	var all []submission
	for i := range 300 {
		key := []string{"a", "b", "c"}[i%3]
		all = append(all, limited(key, key))
	}
	handles := r.wantMany(q, all...)
	h := &limitHistory{running: make(map[string]map[string]time.Time), most: make(map[string]int)}
	var workers sync.WaitGroup
	stop := make(chan struct{})
	for range 3 {
		workers.Go(func() {
			for {
				c := r.child(childTask{Do: "limited"})
				c.line("working")
				if !h.follow(c, stop) {
					return
				}
			}
		})
	}
	for i, handle := range handles {
		r.wantResult(handle, all[i].Input)
	}
	close(stop)
	workers.Wait()
	h.check(t)
}
