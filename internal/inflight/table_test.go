package inflight

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/histories"
)

const ms = time.Millisecond

var errFailed = errors.New("failed")

// A model does to a table what an owner and its callers could do, in a single
// thread, and knows the expected result.
type model struct {
	*testing.T
	rng    *rand.Rand
	table  Table[int, int]
	loads  map[*Load[int, int]]*fate // loads whose function has not returned
	open   map[int]*Flight[int, int] // flights that can be joined
	joined []*Flight[int, int]       // one entry per waiting caller
	lost   uint64                    // number of abandoned loads
}

// A fate is what the model knows about a load.
type fate struct {
	waiting map[*Flight[int, int]]int
	joined  map[*Flight[int, int]]int
	pinned  bool
	gathers bool  // flights can be added
	over    error // nil while the load is not final
}

func (f *fate) joiners() (n int) {
	for _, w := range f.waiting {
		n += w
	}
	return n
}

// TestTableAgainstModel takes many random steps and checks everything after each.
func TestTableAgainstModel(t *testing.T) {
	for seed := range histories.Seeds(t, 100, 1000) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			m := &model{
				T:     t,
				rng:   rand.New(rand.NewPCG(seed, 0)),
				loads: make(map[*Load[int, int]]*fate),
				open:  make(map[int]*Flight[int, int]),
			}
			m.table.Splits = seed%2 == 0
			for range 200 {
				m.step()
				m.check()
				if t.Failed() {
					return
				}
			}
		})
	}
}

func (m *model) step() {
	switch m.rng.IntN(20) {
	default:
		m.come()
	case 0, 1, 2, 3, 4:
		m.leave()
	case 5, 6:
		m.startMany()
	case 7, 8, 9:
		m.returnOne()
	case 10:
		m.detach()
	case 11:
		m.fail()
	case 12:
		m.pin()
	case 14:
		m.close()
	case 15:
		m.move()
	case 13:
		if m.rng.IntN(10) == 0 {
			m.sweep()
		}
	}
}

// come adds a caller for a random key.
func (m *model) come() {
	key, pinned := m.rng.IntN(8), m.rng.IntN(4) == 0
	m.table.Lock()
	defer m.table.Unlock()
	f := m.table.FindLocked(key)
	if f != m.open[key] {
		m.Errorf("FindLocked(%d) = %p; want %p", key, f, m.open[key])
	}
	if f == nil {
		m.startOne(key, pinned)
		return
	}
	f.JoinLocked()
	m.join(f)
}

// startOne starts a load for key, or adds key to a gathering load. m.table must
// be locked.
func (m *model) startOne(key int, pinned bool) {
	l := m.some()
	switch gathers := m.rng.IntN(2) == 0; {
	case l != nil && l.OpenLocked():
		if fate := m.loads[l]; !fate.gathers || fate.over != nil {
			m.Errorf("OpenLocked of %v; want it closed or final", l.keys())
		}
		joins := !m.loads[l].pinned || !pinned
		f := l.AddLocked(key, joins)
		m.open[key] = f
		if joins {
			m.join(f)
		}
	case gathers:
		l = m.table.StartOpenLocked(context.Background(), key, pinned)
		m.started(l, pinned)
		m.loads[l].gathers = true
	default:
		m.started(m.table.StartLocked(context.Background(), key, pinned), pinned)
	}
}

// close ends the gathering of a random load.
func (m *model) close() {
	if l := m.some(); l != nil {
		m.table.Lock()
		l.CloseLocked()
		m.table.Unlock()
		m.loads[l].gathers = false
	}
}

// startMany starts one load for a random choice of the free keys.
func (m *model) startMany() {
	pinned := m.rng.IntN(4) == 0
	m.table.Lock()
	defer m.table.Unlock()
	var keys []int
	for _, key := range m.rng.Perm(8)[:1+m.rng.IntN(4)] {
		if m.open[key] == nil {
			keys = append(keys, key)
		}
	}
	if len(keys) > 0 {
		m.started(m.table.StartManyLocked(context.Background(), keys, pinned), pinned)
	}
}

func (m *model) started(l *Load[int, int], pinned bool) {
	fate := &fate{pinned: pinned, waiting: make(map[*Flight[int, int]]int), joined: make(map[*Flight[int, int]]int)}
	m.loads[l] = fate
	for _, f := range l.Flights() {
		m.open[f.Key] = f
		if !pinned {
			m.join(f)
		}
	}
}

func (m *model) join(f *Flight[int, int]) {
	fate := m.loads[f.Load()]
	fate.waiting[f]++
	fate.joined[f]++
	m.joined = append(m.joined, f)
}

// leave makes a random caller leave.
func (m *model) leave() {
	if len(m.joined) == 0 {
		return
	}
	i := m.rng.IntN(len(m.joined))
	f := m.joined[i]
	m.joined = slices.Delete(m.joined, i, i+1)
	grace := time.Duration(-m.rng.IntN(2)) // 0 or Never
	fate := m.loads[f.Load()]
	left := f.Leave(grace)
	if fate == nil || fate.over != nil {
		if left {
			m.Errorf("Leave of final load %v = true; want false", f.Load().keys())
		}
		return
	}
	if !left {
		m.Errorf("Leave of %v = false; want true", f.Load().keys())
	}
	fate.waiting[f]--
	if fate.gathers && fate.joiners() > 0 && fate.waiting[f] == 0 && !fate.pinned && grace == 0 {
		if slices.Contains(f.Load().Flights(), f) {
			m.Errorf("the load of %v has a flight without waiting callers", f.Load().keys())
		}
		if m.open[f.Key] == f {
			delete(m.open, f.Key)
		}
	} else if !slices.Contains(f.Load().Flights(), f) {
		m.Errorf("the load of %v lost the flight of %d", f.Load().keys(), f.Key)
	}
	if fate.joiners() == 0 && !fate.pinned && grace == 0 {
		m.over(f.Load(), ErrAbandoned)
		m.lost++
	}
}

// over records that l is final.
func (m *model) over(l *Load[int, int], err error) {
	m.loads[l].over = err
	maps.DeleteFunc(m.open, func(_ int, f *Flight[int, int]) bool { return f.Load() == l })
}

// some returns a random load whose function has not returned, or nil.
func (m *model) some() *Load[int, int] {
	if n := len(m.loads); n > 0 {
		skip := m.rng.IntN(n)
		for l := m.table.live.next; ; l = l.next { // in order, so that a seed is reproducible
			if skip--; skip < 0 {
				return l
			}
		}
	}
	return nil
}

// returnOne lets a random load return.
func (m *model) returnOne() {
	l := m.some()
	if l == nil {
		return
	}
	if l.Ending() {
		m.Error("Ending() before Return")
	}
	l.Return()
	if !l.Ending() {
		m.Error("not Ending() after Return")
	}
	m.table.Lock()
	counts := l.CompleteLocked()
	m.table.Unlock()
	if want := m.loads[l].over == nil; counts != want {
		m.Errorf("CompleteLocked of %v = %v; want %v", l.keys(), counts, want)
	}
	if counts {
		l.End(nil)
	}
	if context.Cause(l) == nil || !l.ReturnedLocked() || !l.FinalLocked() || l.prev != nil || l.next != nil {
		m.Errorf("completed load %v: cause %v, returned %v, final %v, or still in the ring", l.keys(), context.Cause(l), l.ReturnedLocked(), l.FinalLocked())
	}
	m.over(l, context.Cause(l))
	delete(m.loads, l)
}

// detach supersedes a random key, or sometimes all keys.
func (m *model) detach() {
	m.table.Lock()
	defer m.table.Unlock()
	if m.rng.IntN(5) == 0 {
		if n := m.table.DetachAllLocked(); n != len(m.open) {
			m.Errorf("DetachAllLocked() = %d; want %d", n, len(m.open))
		}
		for _, f := range m.open {
			if !f.SupersededLocked() {
				m.Errorf("flight of %d is not superseded", f.Key)
			}
		}
		clear(m.open)
		return
	}
	key := m.rng.IntN(8)
	f := m.open[key]
	if got := m.table.DetachLocked(key); got != (f != nil) {
		m.Errorf("DetachLocked(%d) = %v; want %v", key, got, f != nil)
	}
	if f != nil && !f.SupersededLocked() {
		m.Errorf("flight of %d is not superseded", key)
	}
	delete(m.open, key)
}

// move moves a random flight out of a load of several keys.
func (m *model) move() {
	l := m.some()
	if l == nil || !m.table.Splits {
		return
	}
	fate := m.loads[l]
	if len(l.Flights()) < 2 || fate.gathers || fate.over != nil {
		return
	}
	f := l.Flights()[m.rng.IntN(len(l.Flights()))]
	m.table.Lock()
	own := f.MoveLocked()
	m.table.Unlock()
	if f.Load() != own || slices.Contains(l.Flights(), f) || len(own.Flights()) != 1 {
		m.Errorf("flight of %d was moved to a load of %v, from one of %v", f.Key, own.keys(), l.keys())
	}
	m.loads[own] = fate.without(f)
}

// without returns the fate of a flight on its own, and removes it from f.
func (f *fate) without(flight *Flight[int, int]) *fate {
	own := &fate{pinned: f.pinned, waiting: make(map[*Flight[int, int]]int), joined: make(map[*Flight[int, int]]int)}
	own.waiting[flight], own.joined[flight] = f.waiting[flight], f.joined[flight]
	delete(f.waiting, flight)
	delete(f.joined, flight)
	return own
}

// fail ends a random load as a hard timeout does.
func (m *model) fail() {
	l := m.some()
	if l == nil {
		return
	}
	m.table.Lock()
	first := l.FailLocked(errFailed)
	m.table.Unlock()
	if want := m.loads[l].over == nil; first != want {
		m.Errorf("FailLocked of %v = %v; want %v", l.keys(), first, want)
	}
	if first {
		l.Expire(errFailed)
		m.over(l, errFailed)
	}
}

// pin makes the owner a joiner of a random load.
func (m *model) pin() {
	if l := m.some(); l != nil {
		m.table.Lock()
		l.PinLocked()
		m.table.Unlock()
		m.loads[l].pinned = true
	}
}

// sweep ends all loads, as Close does.
func (m *model) sweep() {
	m.table.Lock()
	ended := m.table.FinishAllLocked(errFailed)
	m.table.Unlock()
	for _, l := range ended {
		if m.loads[l].over != nil {
			m.Errorf("FinishAllLocked ended %v twice", l.keys())
		}
		l.End(errFailed)
		m.over(l, errFailed)
	}
	if len(m.open) != 0 {
		m.Errorf("FinishAllLocked left %d flights", len(m.open))
	}
}

// check compares the table with the model.
func (m *model) check() {
	m.table.Lock()
	defer m.table.Unlock()
	m.table.check(m)
	if n := m.table.LenLocked(); n != len(m.open) {
		m.Errorf("LenLocked() = %d; want %d", n, len(m.open))
	}
	if n := m.table.RunningLocked(); n != len(m.loads) {
		m.Errorf("RunningLocked() = %d; want %d", n, len(m.loads))
	}
	if n := m.table.AbandonedLocked(); n != m.lost {
		m.Errorf("AbandonedLocked() = %d; want %d", n, m.lost)
	}
	for l, fate := range m.loads {
		if l.FinalLocked() != (fate.over != nil) || context.Cause(l) != fate.over {
			m.Errorf("load %v: final %v, cause %v; want %v", l.keys(), l.FinalLocked(), context.Cause(l), fate.over)
		}
		if fate.over == nil && l.JoinersLocked() != fate.joiners() {
			m.Errorf("load %v: %d joiners; want %d", l.keys(), l.JoinersLocked(), fate.joiners())
		}
		if l.PinnedLocked() != fate.pinned || l.ReturnedLocked() {
			m.Errorf("load %v: pinned %v, returned %v; want %v, false", l.keys(), l.PinnedLocked(), l.ReturnedLocked(), fate.pinned)
		}
		for _, f := range l.Flights() {
			if f.Joined() != fate.joined[f] {
				m.Errorf("flight %d: Joined() = %d; want %d", f.Key, f.Joined(), fate.joined[f])
			}
			if fate.over != nil && f.Err != fate.over {
				m.Errorf("flight %d: Err = %v; want %v", f.Key, f.Err, fate.over)
			}
		}
	}
}

// TestTableInTheCrowd has callers come and go at the same instants, and verifies
// the structure all the time.
func TestTableInTheCrowd(t *testing.T) {
	for _, grace := range []time.Duration{0, 2 * ms, Never} {
		t.Run(grace.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { crowd(t, grace) })
		})
	}
}

func crowd(t *testing.T, grace time.Duration) {
	var table Table[int, int]
	var wg sync.WaitGroup
	call := func(rng *rand.Rand) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+rng.IntN(4))*ms)
		defer cancel()
		key, takes := rng.IntN(4), time.Duration(rng.IntN(6))*ms
		table.Lock()
		if rng.IntN(8) == 0 {
			table.DetachLocked(key)
		}
		f := table.FindLocked(key)
		if f != nil {
			f.JoinLocked()
		} else {
			l := table.StartLocked(ctx, key, false)
			f = l.Flights()[0]
			wg.Go(func() {
				time.Sleep(takes)
				finish(l, key)
			})
		}
		table.check(t)
		if grace == 0 {
			table.checkWaitedFor(t)
		}
		table.Unlock()
		switch err := f.Wait(ctx, grace); {
		case err != nil && err != context.DeadlineExceeded:
			t.Errorf("Wait = %v; want the deadline", err)
		case err == nil && (f.Value != key || f.Err != nil):
			t.Errorf("flight of %d: %d, %v; want %d, nil", key, f.Value, f.Err, key)
		}
	}
	for i := range uint64(32) {
		rng := rand.New(rand.NewPCG(i, 0))
		wg.Go(func() {
			for range 50 {
				time.Sleep(time.Duration(rng.IntN(4)) * ms)
				call(rng)
			}
		})
	}
	wg.Wait()
	time.Sleep(time.Second)
	table.Lock()
	defer table.Unlock()
	table.check(t)
	if table.LenLocked() != 0 || table.RunningLocked() != 0 {
		t.Errorf("Len, Running = %d, %d at the end; want 0, 0", table.LenLocked(), table.RunningLocked())
	}
}

// finish ends l with value, as an owner would.
func finish(l *Load[int, int], value int) bool {
	l.Return()
	l.table.Lock()
	if !l.FinalLocked() {
		for _, f := range l.Flights() {
			f.Value = value
		}
	}
	counts := l.CompleteLocked()
	l.table.Unlock()
	if counts {
		l.End(nil)
	}
	return counts
}
