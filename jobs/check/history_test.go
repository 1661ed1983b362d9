package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/weir-go/weir/internal/histories"
	"github.com/weir-go/weir/jobs"
)

// TestHistoriesAreLinearizable checks that what concurrent callers and workers see of
// a key can be explained by a sequence of the operations on it (see
// history_model_test.go).
func TestHistoriesAreLinearizable(t *testing.T) {
	r := contract(t)
	w := newHistories(r, 2, 10*time.Second)
	histories.InLanes(t, 60, 400, func(t *testing.T, seed uint64) {
		h := w.play(t, seed, 4, 12)
		h.check(t, lifeModel())
	})
}

// The same test with a server in a separate process, which is killed and started
// again in the middle of each history.
func TestHistoriesWithAKilledServerAreLinearizable(t *testing.T) {
	r := contractWithServerApart(t)
	w := newHistories(r, 2, 500*time.Millisecond)
	w.cut = true
	for seed := range histories.Seeds(t, 3, 12) {
		var one sync.WaitGroup
		var all []*lifeHistory
		one.Go(func() {
			<-time.After(time.Duration(rand.Int64N(int64(60 * time.Millisecond))))
			r.killServer()
		})
		for i := range 3 {
			one.Go(func() {
				h := w.play(t, 1000*seed+uint64(i), 4, 12)
				w.mu.Lock()
				defer w.mu.Unlock()
				all = append(all, h)
			})
		}
		one.Wait()
		for _, h := range all {
			h.check(t, lifeModel())
		}
	}
}

// A Submit without an acknowledgement has begun a life all the same. That life fails,
// and another Submit begins the next one, which is done. Then the first Submit
// repeats its write, finds the job done, and begins a third life because of Restart.
func TestASlowSubmitMayBeginTwoLives(t *testing.T) {
	const ms = int64(time.Millisecond)
	submit := func(in string) lifeOp { return lifeOp{key: "0/a", call: "submit", in: in, restart: true} }
	for _, slow := range []bool{true, false} {
		h := &lifeHistory{}
		life := func(at int64, in string, fence uint64, end jobs.State) {
			h.add(lifeOp{key: "0/a", call: "start", in: in, fence: fence, attempt: 1}, lifeOut{answer: ok}, 0, at*ms)
			h.add(lifeOp{key: "0/a", call: "end", fence: fence}, lifeOut{answer: ok, state: end}, at*ms, (at+10)*ms)
		}
		answered := 300 * ms
		if slow {
			answered = 1000 * ms
		}
		life(100, "in", 5, jobs.StateFailed)
		h.add(submit("other"), lifeOut{answer: began}, 200*ms, 210*ms)
		life(220, "other", 7, jobs.StateDone)
		h.add(submit("in"), lifeOut{answer: began}, 0, answered)
		life(1010, "in", 9, jobs.StateDone)
		if got := porcupine.CheckOperations(lifeModel(), h.ops); got != slow {
			t.Errorf("slow %t: the history has an explanation: %t; want %t", slow, got, slow)
		}
	}
}

// lifeHistories are played side by side on one queue, with workers for all of them.
type lifeHistories struct {
	jobs.NopObserver

	r      *contractRig
	queues []*stringQueue // with different connections
	stores []*jobs.Store
	cut    bool // whether attempts can be cut off
	begin  time.Time

	mu  sync.Mutex
	all map[string]*lifeHistory // guarded by mu; keyed by the first part of the job's key
}

func newHistories(r *contractRig, workers int, lease time.Duration) *lifeHistories {
	w := &lifeHistories{r: r, begin: time.Now(), all: map[string]*lifeHistory{}}
	o := jobs.QueueOptions{RetryInitial: time.Millisecond, RetryMax: 2 * time.Millisecond, MaxAttempts: 4, Lease: lease}
	for range 4 {
		store := r.open(jobs.StoreOptions{Timeout: opTimeout})
		w.stores = append(w.stores, store)
		w.queues = append(w.queues, r.queueOn(store, o))
	}
	for i := range workers {
		store := r.open(jobs.StoreOptions{Timeout: opTimeout})
		r.work(r.queueOn(store, o), jobs.WorkerOptions{Name: fmt.Sprint("w", i), Observer: w}, w.handle)
	}
	return w
}

// opTimeout is the Timeout of the stores; a write is repeated after a third of it.
const opTimeout = 2 * time.Second

func (w *lifeHistories) now() int64 { return int64(time.Since(w.begin)) }

// A lifeHistory records the operations on some keys.
type lifeHistory struct {
	w    *lifeHistories
	name string

	mu   sync.Mutex
	ops  []porcupine.Operation   // guarded by mu
	open map[uint64]*lifeAttempt // guarded by mu; keyed by fence; attempts without a known outcome
	done bool                    // guarded by mu; later operations are not recorded
}

// A lifeAttempt is an attempt that has started.
type lifeAttempt struct {
	op       lifeOp
	started  int64
	returned int64 // when the handler returned; zero: not yet
}

// of returns the history of a key, which has the form "seed/key".
func (w *lifeHistories) of(key string) *lifeHistory {
	name, _, _ := strings.Cut(key, "/")
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all[name]
}

func (h *lifeHistory) add(op lifeOp, out lifeOut, call, ret int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.addLocked(op, out, call, ret)
}

func (h *lifeHistory) addLocked(op lifeOp, out lifeOut, call, ret int64) {
	if h.done {
		return
	}
	op.slow = ret-call > int64(opTimeout/4) && op.call != "start"
	if op.slow && out.answer == effects[op.call] {
		// The first write may have had its effect, too, and that life was over before
		// the second.
		h.ops = append(h.ops, porcupine.Operation{Input: op, Output: lifeOut{answer: unavailable}, Call: call, Return: ret})
	}
	if out.answer == unavailable {
		ret = math.MaxInt64
	}
	h.ops = append(h.ops, porcupine.Operation{Input: op, Output: out, Call: call, Return: ret})
}

// handle is the handler for all histories.
func (w *lifeHistories) handle(ctx context.Context, j *stringJob) (string, error) {
	h := w.of(j.Key)
	started := w.now()
	a := &lifeAttempt{started: started, op: lifeOp{key: j.Key, call: "start", in: j.Input, fence: j.Fence, attempt: j.Attempt, cut: w.cut}}
	h.mu.Lock()
	h.addLocked(a.op, lifeOut{answer: ok}, 0, started)
	a.op = lifeOp{key: j.Key, call: "end", fence: j.Fence}
	h.open[j.Fence] = a
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		a.returned = w.now()
	}()

	r := rand.New(rand.NewPCG(j.Fence, uint64(j.Attempt)))
	if n := r.IntN(3); n > 0 {
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-time.After(time.Duration(r.Int64N(int64(4 * time.Millisecond)))):
		}
	}
	switch r.IntN(6) {
	case 0, 1:
		return "", errors.New("transient")
	case 2:
		return "", jobs.Permanent(errors.New("permanent"))
	}
	return fmt.Sprint(j.Fence), nil
}

// AttemptEnd records the outcomes, which a Worker reports once they are stored or
// rejected.
func (w *lifeHistories) AttemptEnd(_ context.Context, i jobs.AttemptInfo, e jobs.AttemptEnd) {
	out := lifeOut{answer: ok}
	switch e.Kind {
	case jobs.EventSucceeded:
		out.state = jobs.StateDone
	case jobs.EventRetried:
		out.state = jobs.StateRetrying
	case jobs.EventEnded:
		out.state = jobs.StateDead
		if strings.Contains(e.Err.Error(), "permanent") {
			out.state = jobs.StateFailed
		}
	case jobs.EventDropped:
		out.answer = dropped
	default:
		return
	}
	w.mu.Lock()
	all := w.all // each change makes a copy
	w.mu.Unlock()
	for _, h := range all {
		h.mu.Lock()
		if a := h.open[i.Fence]; a != nil && a.returned > 0 {
			delete(h.open, i.Fence)
			if ended := w.now(); out.answer == dropped && ended-a.returned > int64(opTimeout/4) {
				h.unknownLocked(a) // the outcome may have been stored, and replaced before the second try
			} else {
				h.addLocked(a.op, out, a.returned, ended)
			}
		}
		h.mu.Unlock()
	}
}

// unknownLocked records that attempt a may have ended in any way, or not at all. h.mu
// must be held.
func (h *lifeHistory) unknownLocked(a *lifeAttempt) {
	call := a.returned
	if call == 0 {
		call = a.started
	}
	for _, state := range []jobs.State{jobs.StateDone, jobs.StateFailed, jobs.StateDead, jobs.StateRetrying} {
		h.addLocked(a.op, lifeOut{answer: unavailable, state: state}, call, 0)
	}
}

// play runs some callers with some operations each, waits until the jobs are over,
// and returns the recorded history.
func (w *lifeHistories) play(t *testing.T, seed uint64, callers, each int) *lifeHistory {
	h := &lifeHistory{w: w, name: fmt.Sprint(seed), open: map[uint64]*lifeAttempt{}}
	w.mu.Lock()
	all := map[string]*lifeHistory{h.name: h}
	for k, v := range w.all {
		all[k] = v
	}
	w.all = all // a copy, because observers read the old one
	w.mu.Unlock()
	keys := []string{h.name + "/a", h.name + "/b"}
	var callersDone sync.WaitGroup
	for i := range callers {
		callersDone.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			for range each {
				h.call(t, r, i, keys[r.IntN(len(keys))])
				if r.IntN(3) == 0 {
					<-time.After(time.Duration(r.Int64N(int64(3 * time.Millisecond))))
				}
			}
		})
	}
	callersDone.Wait()
	h.quiet(t, keys)
	return h
}

// call performs one operation, over one of the connections.
func (h *lifeHistory) call(t *testing.T, r *rand.Rand, caller int, key string) {
	q, store := h.w.queues[caller], h.w.stores[caller]
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	op, out := lifeOp{key: key}, lifeOut{answer: ok}
	id := contractID(key)
	begin := h.w.now()
	var err error
	switch n := r.IntN(100); {
	case n < 45:
		op.call, op.in, op.restart = "submit", "in", r.IntN(4) == 0
		if r.IntN(8) == 0 {
			op.in = "other"
		}
		var hd *stringHandle
		hd, err = q.Submit(ctx, op.in, jobs.SubmitOptions{Key: key, Restart: op.restart})
		if err == nil {
			out.answer = began
			if hd.Joined() {
				out.answer = joined
			}
			if hd.ID() != id {
				t.Errorf("ID of the key %q = %s; want %s", key, hd.ID(), id)
			}
		}
	case n < 65:
		op.call = "cancel"
		err = store.Cancel(ctx, "q", id)
	case n < 72:
		op.call = "retry"
		err = store.Retry(ctx, "q", id)
	case n < 80:
		op.call = "drop"
		err = store.Drop(ctx, "q", id)
	default:
		h.status(ctx, t, store, key)
		return
	}
	if err != nil {
		out.answer = answerOf(t, op.call, err)
	}
	h.add(op, out, begin, h.w.now())
}

func answerOf(t *testing.T, call string, err error) string {
	for target, answer := range map[error]string{
		jobs.ErrConflict: conflict, jobs.ErrFinished: finished, jobs.ErrNotFound: notFound, jobs.ErrUnavailable: unavailable,
		context.DeadlineExceeded: unavailable,
	} {
		if errors.Is(err, target) {
			return answer
		}
	}
	t.Errorf("%s = %v; want a documented error", call, err)
	return unavailable
}

func (h *lifeHistory) status(ctx context.Context, t *testing.T, store *jobs.Store, key string) jobs.Status {
	begin := h.w.now()
	s, err := store.Status(ctx, "q", contractID(key))
	op, out := lifeOp{key: key, call: "status"}, lifeOut{answer: ok, state: s.State, attempt: s.Attempt, fence: s.Fence}
	if err != nil {
		out = lifeOut{answer: answerOf(t, "status", err)}
	}
	if out.answer != unavailable { // an unavailable status says nothing
		h.add(op, out, begin, h.w.now())
	}
	return s
}

// quiet waits until the jobs are over, and all outcomes are reported.
func (h *lifeHistory) quiet(t *testing.T, keys []string) {
	for _, key := range keys {
		late := time.After(patience)
		for over := false; !over; {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			s, err := h.w.stores[0].Status(ctx, "q", contractID(key))
			cancel()
			over = errors.Is(err, jobs.ErrNotFound) || err == nil && s.State.Terminal()
			select {
			case <-late:
				t.Errorf("after %v the job of key %q is %+v (%v); want it finished", patience, key, s, err)
				over = true
			case <-time.After(5 * time.Millisecond):
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		h.status(ctx, t, h.w.stores[1], key)
		cancel()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range h.open { // no more will be reported about them
		h.unknownLocked(a)
	}
	h.addUnseenLocked()
	h.done = true
}

// addUnseenLocked adds the starts that a Status has shown but no handler: the attempt
// was marked, but its handler has not run yet, or its worker did not learn of it.
// h.mu must be held.
func (h *lifeHistory) addUnseenLocked() {
	seen := map[uint64]bool{0: true}
	for _, op := range h.ops {
		if in := op.Input.(lifeOp); in.call == "start" {
			seen[in.fence] = true
		}
	}
	for _, op := range slices.Clone(h.ops) {
		in, out := op.Input.(lifeOp), op.Output.(lifeOut)
		if in.call == "status" && !seen[out.fence] {
			seen[out.fence] = true
			h.addLocked(lifeOp{key: in.key, call: "start", in: anyInput, fence: out.fence, attempt: out.attempt, cut: h.w.cut}, lifeOut{answer: ok}, 0, math.MaxInt64)
		}
	}
}

// check checks the history against the model.
func (h *lifeHistory) check(t *testing.T, model porcupine.Model) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.ops) < 20 {
		t.Errorf("history %s has %d operations; want at least 20", h.name, len(h.ops))
	}
	for _, part := range model.Partition(h.ops) {
		switch porcupine.CheckOperationsTimeout(model, part, 30*time.Second) {
		case porcupine.Illegal:
			slices.SortFunc(part, func(a, b porcupine.Operation) int { return int(a.Return - b.Return) })
			var lines strings.Builder
			for _, op := range part {
				fmt.Fprintf(&lines, "  %v to %v: %+v -> %+v\n", time.Duration(op.Call), time.Duration(op.Return), op.Input, op.Output)
			}
			t.Errorf("history %s has no explanation:\n%s", h.name, &lines)
		case porcupine.Unknown:
			t.Errorf("history %s: %d operations were not judged within 30s", h.name, len(part))
		}
	}
}
