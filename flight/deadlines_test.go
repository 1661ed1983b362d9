package flight_test

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/weir/flight"
)

const us = time.Microsecond

// A visit is one caller of FuzzDeadlines. No two kinds of events fall on the same
// instant, so that there is only one correct outcome. Callers arrive 0 to 31 µs after a
// full millisecond and leave 200 µs after one. Loads end at 300 µs, grace at 400, and
// keys are forgotten at 500.
type visit struct {
	comes   time.Duration
	leaves  time.Duration // its deadline
	takes   time.Duration // of the load, if this caller starts one
	deaf    bool          // that load ignores its context
	forgets time.Duration // when the caller forgets the key, 0 for never
}

// visits decodes callers from the fuzzer's input, four bytes each.
func visits(data []byte) []visit {
	var vs []visit
	for i := time.Duration(0); i < 32 && len(data) >= 4; i++ {
		v := visit{
			comes: time.Duration(data[0]%32)*ms + i*us,
			takes: time.Duration(data[2]%24)*ms + 300*us,
			deaf:  data[3]&1 != 0,
		}
		v.leaves = v.comes + time.Duration(data[1]%24)*ms + 200*us
		if data[3]&6 == 6 {
			v.forgets = v.comes + time.Duration(data[3]>>3)*ms + 500*us
		}
		vs, data = append(vs, v), data[4:]
	}
	return vs
}

// graceOf decodes Group.Grace from a byte of the fuzzer's input.
func graceOf(b byte) time.Duration {
	switch b %= 16; b {
	case 0, 1, 2, 3:
		return 0
	case 4, 5:
		return flight.Never
	default:
		return time.Duration(b-6)*ms + 200*us
	}
}

// An outcome is the result of a caller: its own deadline, or the value of a load.
type outcome struct {
	flight.Result[int]
	at time.Duration
}

// A reference computes the expected outcome of a plan, in a single thread.
type reference struct {
	grace   time.Duration
	agenda  []event
	now     time.Duration
	current *refLoad // that a caller would join
	visits  []visit
	got     []outcome // by caller
	ends    []run     // by the caller that started the load; zero if it started none
}

type event struct {
	at time.Duration
	do func()
}

type refLoad struct {
	starter int
	final   bool
	waiting map[int]bool
	ever    int
	left    int // how often the last caller has left
}

func (r *reference) plan(at time.Duration, do func()) { r.agenda = append(r.agenda, event{at, do}) }

// run processes the agenda.
func (r *reference) run() {
	for i, v := range r.visits {
		r.plan(v.comes, func() { r.come(i) })
		if v.forgets > 0 {
			r.plan(v.forgets, func() { r.current = nil })
		}
	}
	for len(r.agenda) > 0 {
		next := slices.MinFunc(r.agenda, func(a, b event) int { return cmp.Compare(a.at, b.at) })
		r.agenda = slices.DeleteFunc(r.agenda, func(e event) bool { return e.at == next.at })
		r.now = next.at
		next.do()
	}
}

// come models the arrival of caller i.
func (r *reference) come(i int) {
	if r.current == nil {
		l := &refLoad{starter: i, waiting: make(map[int]bool)}
		r.current = l
		r.plan(r.now+r.visits[i].takes, func() { r.end(l, nil) })
	}
	l := r.current
	l.ever++
	l.waiting[i] = true
	r.got[i].Joined = l.starter != i
	r.plan(r.visits[i].leaves, func() { r.leave(i, l) })
}

// leave makes caller i leave, if it still waits.
func (r *reference) leave(i int, l *refLoad) {
	if !l.waiting[i] {
		return
	}
	delete(l.waiting, i)
	r.got[i].Err, r.got[i].at = context.DeadlineExceeded, r.now
	if len(l.waiting) > 0 || r.grace < 0 {
		return
	}
	if r.grace == 0 {
		r.end(l, flight.ErrAbandoned)
		return
	}
	l.left++
	nth := l.left
	r.plan(r.now+r.grace, func() {
		if len(l.waiting) == 0 && l.left == nth {
			r.end(l, flight.ErrAbandoned)
		}
	})
}

// end makes l final: it has returned, or is canceled with cause.
func (r *reference) end(l *refLoad, cause error) {
	if l.final {
		return
	}
	l.final = true
	if r.current == l {
		r.current = nil
	}
	for i := range l.waiting {
		got := &r.got[i]
		got.Value, got.Joiners, got.at = l.starter, l.ever, r.now
	}
	clear(l.waiting)
	r.ends[l.starter] = run{r.now, cause}
	if v := r.visits[l.starter]; v.deaf {
		r.ends[l.starter].at = v.comes + v.takes
	}
}

// FuzzDeadlines compares the result and time of each caller, and the end and cause of
// each load, with a simple reference.
func FuzzDeadlines(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		plan := make([]byte, 4*(1+rng.IntN(32)))
		for i := range plan {
			plan[i] = byte(rng.Uint32())
		}
		f.Add(byte(rng.Uint32()), plan)
	}
	f.Fuzz(func(t *testing.T, grace byte, plan []byte) {
		tell(t, func(s *story) {
			vs := visits(plan)
			ref := &reference{grace: graceOf(grace), visits: vs, got: make([]outcome, len(vs)), ends: make([]run, len(vs))}
			ref.run()
			got, ends := s.visit(ref.grace, vs)
			for i, v := range vs {
				if got[i] != ref.got[i] {
					s.Errorf("grace %v, caller %d %+v got %+v; want %+v", ref.grace, i, v, got[i], ref.got[i])
				}
				if ends[i] != ref.ends[i] {
					s.Errorf("grace %v, load of caller %d %+v ended %+v; want %+v", ref.grace, i, v, ends[i], ref.ends[i])
				}
			}
			s.wantLen(0)
		})
	})
}

// visit plays the plan with a real Group.
func (s *story) visit(grace time.Duration, vs []visit) (got []outcome, ends []run) {
	s.Grace = grace
	got, ends = make([]outcome, len(vs)), make([]run, len(vs))
	for i, v := range vs {
		fn := func(ctx context.Context) (int, error) {
			cut := ctx.Done()
			if v.deaf {
				cut = nil
			}
			select {
			case <-time.After(v.takes):
			case <-cut:
			}
			ends[i] = run{s.now(), context.Cause(ctx)}
			return i, nil
		}
		go func() {
			time.Sleep(v.comes)
			r := s.DoResult(s.until(v.leaves), "k", fn)
			got[i] = outcome{r, s.now()}
		}()
		if v.forgets > 0 {
			time.AfterFunc(v.forgets, func() { s.Forget("k") })
		}
	}
	s.at(time.Second) // everything has ended by then
	return got, ends
}
