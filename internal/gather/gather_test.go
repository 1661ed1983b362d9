package gather_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/gather"
	"github.com/weir-go/weir/internal/histories"
)

// A box is a batch for tests.
type box struct {
	size   int
	closed bool
	wanted bool
}

func (b *box) SizeLocked() int    { return b.size }
func (b *box) OpenLocked() bool   { return !b.closed }
func (b *box) WantedLocked() bool { return b.wanted }

// placed reports whether g has a place now.
func placed(t *testing.T, q *gather.Queue, g *gather.Group) bool {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var mu sync.Mutex
	has := q.Wait(ctx, &mu, g)
	return has
}

// Closing one group leaves the next group of its scope open.
func TestCloseLeavesTheNextGroupOpen(t *testing.T) {
	q := gather.NewQueue(1, 4, 0)
	first, second := &box{size: 1, wanted: true}, &box{wanted: true}
	g := q.OpenLocked("a", false, first)
	if q.FindLocked("a", false) != nil {
		t.Error("FindLocked found a full group")
	}
	next := q.OpenLocked("a", false, second)
	q.CloseLocked(g)
	if q.FindLocked("a", false) != next {
		t.Error("FindLocked did not find the open group")
	}
	q.EndLocked(g)
	if q.FindLocked("a", false) != next || q.FindLocked("b", false) != nil || q.FindLocked("a", true) != nil {
		t.Error("FindLocked did not find the open group, or found one of another scope")
	}
	second.closed = true
	if q.FindLocked("a", false) != nil {
		t.Error("FindLocked found a group whose batch is closed")
	}
}

// Places are granted in the order of the line, to unwanted groups after all
// others. If there are several places, an unwanted group never gets the last one.
func TestPlacesInOrder(t *testing.T) {
	q := gather.NewQueue(1, 2, time.Hour)
	idle := &box{size: 1}
	var groups []*gather.Group
	for _, b := range []*box{{size: 1}, idle, {size: 1, wanted: true}, {size: 1, wanted: true}} {
		groups = append(groups, q.SendLocked(b))
	}
	want := func(has ...bool) {
		t.Helper()
		var got []bool
		for _, g := range groups {
			got = append(got, placed(t, q, g))
		}
		if !slices.Equal(got, has) {
			t.Errorf("places = %v; want %v", got, has)
		}
	}
	// A group is queried only once, so check the line from its end.
	want(true, false, true, false)
	if n := len(q.WaitingLocked()); n != 2 {
		t.Errorf("%d wait; want 2", n)
	}
	q.EndLocked(groups[0])
	if n := len(q.WaitingLocked()); n != 1 {
		t.Errorf("%d wait; want 1, the unwanted group", n)
	}
	q.EndLocked(groups[2])
	if n := len(q.WaitingLocked()); n != 1 {
		t.Errorf("%d wait; want 1: one of two places is free, but not for the unwanted group", n)
	}
	idle.wanted = true
	q.GrantLocked()
	if n := len(q.WaitingLocked()); n != 0 {
		t.Errorf("%d wait; want none", n)
	}
	q.StickLocked(groups[1])
	q.StickLocked(groups[1])
	if q.HungLocked() {
		t.Error("HungLocked with one place stuck")
	}
	q.StickLocked(groups[3])
	if !q.HungLocked() {
		t.Error("not HungLocked with both places stuck")
	}
	q.EndLocked(groups[3])
	if q.HungLocked() {
		t.Error("HungLocked with one place free")
	}
}

// TestQueueHistory: under random arrivals, ends and abandoned calls, no more
// groups have a place than there are places, every group gets one in the end, and
// none is left over.
func TestQueueHistory(t *testing.T) {
	for seed := range histories.Seeds(t, 50, 500) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rng := rand.New(rand.NewPCG(seed, 0))
				places := 1 + rng.IntN(3)
				q := gather.NewQueue(2, places, time.Duration(rng.IntN(3))*time.Millisecond)
				var mu sync.Mutex
				var wg sync.WaitGroup
				running := 0
				for range 60 {
					time.Sleep(time.Duration(rng.IntN(2)) * time.Millisecond)
					patience, takes, scope := time.Duration(1+rng.IntN(20))*time.Millisecond, time.Duration(rng.IntN(5))*time.Millisecond, rng.IntN(3)
					background := rng.IntN(4) == 0
					mu.Lock()
					if g := q.FindLocked(scope, background); g != nil {
						g.Batch.(*box).size++
						q.AddedLocked(g)
						mu.Unlock()
						continue
					}
					b := &box{size: 1, wanted: !background}
					g := q.OpenLocked(scope, background, b)
					mu.Unlock()
					wg.Go(func() {
						ctx, cancel := context.WithTimeout(t.Context(), patience)
						defer cancel()
						if has := q.Wait(ctx, &mu, g); has {
							mu.Lock()
							if running++; running > places || b.size > 2 {
								t.Errorf("%d run on %d places, %d in one", running, places, b.size)
							}
							b.closed = true
							q.CloseLocked(g)
							mu.Unlock()
							time.Sleep(takes)
							mu.Lock()
							running--
							mu.Unlock()
						}
						mu.Lock()
						b.closed = true
						q.EndLocked(g)
						mu.Unlock()
					})
				}
				wg.Wait()
				if n := len(q.WaitingLocked()); n != 0 {
					t.Errorf("%d wait at the end", n)
				}
				for range places {
					if b := (&box{size: 1, wanted: true}); !placed(t, q, q.SendLocked(b)) {
						t.Error("a place was lost")
					}
				}
			})
		})
	}
}
