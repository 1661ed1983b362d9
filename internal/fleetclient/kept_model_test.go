package fleetclient

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/internal/histories"
)

// check walks the structure.
func (k *kept) check(t *testing.T) {
	t.Helper()
	sum, n := 0, 0
	for e := k.used.Front(); e != nil; e = e.Next() {
		key := e.Value.(*keptKey)
		if k.keys[key.name] != e {
			t.Fatalf("%q is in the list, but not in the map", key.name)
		}
		if key.data != nil && key.fence < key.floor {
			t.Fatalf("%q has a value of %d; its floor is %d", key.name, key.fence, key.floor)
		}
		sum += keptCost + len(key.name) + len(key.data)
		n++
	}
	if n != len(k.keys) || sum != k.bytes || k.bytes > k.limit {
		t.Fatalf("%d keys in the list, %d in the map; %d bytes, counted as %d, of at most %d", n, len(k.keys), sum, k.bytes, k.limit)
	}
}

// Keys without values are bounded, too: those with the latest replies stay.
func TestKeysOfPushedValuesAreBounded(t *testing.T) {
	k := newKept(&Options{PushValue: 100, PushMemory: 4000, MemoryCap: time.Minute})
	for i := range 100 {
		k.want(fmt.Sprint(i), 1, 1, time.Now())
		k.check(t)
	}
	if k.find("99") == nil || k.find("0") != nil {
		t.Errorf("%d keys; want the last ones", len(k.keys))
	}
}

// A keptModel is the rule for one key: what the instance may get from pushes.
type keptModel struct {
	asked bool   // since pushes were last missed
	low   uint64 // no value below it is allowed
	value uint64 // the fence of the value that it must get; 0: it may get none
	fresh time.Time
}

// T8, T14: in random histories of replies, pushes in any order, writes and
// interruptions, a key's pushed value is used exactly if it is the newest that the
// instance knows of, and fresh by the engine's clock.
func TestT8_PushedValuesMatchTheModel(t *testing.T) {
	used, seeds := 0, 0
	for seed := range histories.Seeds(t, 300, 3000) {
		seeds++
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0x6b657074))
			const limit = 8 * (keptCost + 1 + 100)
			k := newKept(&Options{PushValue: 100, PushMemory: limit, MemoryCap: 20 * time.Second})
			models := make([]keptModel, 5)
			ahead := time.Duration(r.Int64N(int64(time.Hour))) // of the engine's clock
			engine := func() uint64 { return uint64(time.Now().Add(ahead).UnixMicro()) }
			last := engine()
			next := func() uint64 { last = max(last+1, engine()); return last }
			type sent struct {
				key   int
				fence uint64
				now   uint64
				fresh time.Duration
				at    time.Time
			}
			var way []sent // values that were pushed, in any order and more than once
			for range 200 {
				i := r.IntN(len(models))
				name, m := fmt.Sprint(i), &models[i]
				switch r.IntN(9) {
				case 0, 1: // a reply
					floor := next()
					k.want(name, floor, engine(), time.Now())
					m.asked, m.low = true, max(m.low, floor)
				case 2: // a store
					way = append(way, sent{i, next(), engine(), time.Duration(r.IntN(30)) * time.Second, time.Now()})
				case 3, 4: // a push
					if len(way) == 0 {
						continue
					}
					s := way[r.IntN(len(way))]
					size := 1 + r.IntN(110)
					k.pushed(fmt.Sprint(s.key), fleet.Entry{Data: make([]byte, size), Fence: s.fence, Fresh: s.fresh}, s.now)
					if m := &models[s.key]; m.asked && s.fence >= m.low && size <= 100 {
						m.low, m.value, m.fresh = s.fence, s.fence, s.at.Add(min(s.fresh, k.cap))
					}
				case 5: // news
					fence := last - uint64(r.IntN(3))
					k.raise(name, fence)
					m.low = max(m.low, fence)
				case 6:
					time.Sleep(time.Duration(r.Int64N(int64(5 * time.Second))))
				case 7: // an interruption, or lost history
					if r.IntN(4) == 0 {
						k.clear()
						clear(models)
					}
				case 8:
					a, age, ok := k.take(name, fleet.Ask{}, floor{})
					left := time.Until(m.fresh)
					want := m.value > 0 && m.value >= m.low && left > time.Microsecond
					if !m.asked {
						want, m.low = false, 0
					}
					if ok != want && (ok || left > time.Millisecond) {
						t.Fatalf("seed %d: take = %v of %v; want %v: %+v", seed, a.Entry, age, want, *m)
					}
					if ok {
						used++
						if a.Entry.Fence != m.value || a.Entry.Fresh > left+k.cap || age < 0 {
							t.Fatalf("seed %d: take = %+v, of %v; want %+v", seed, *a.Entry, age, *m)
						}
						m.low = m.value + 1
					}
					m.value = 0
				}
				if m := &models[i]; m.value < m.low {
					m.value = 0
				}
				k.check(t)
			}
		})
	}
	if used < seeds/15 && !histories.Alone() {
		t.Errorf("%d values were used in %d histories; want some", used, seeds)
	}
}
