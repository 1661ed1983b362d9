package responses_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weir-go/weir/internal/responses"
)

// A history drives a store from many goroutines. For each key and each tag it
// remembers the last invalidation. Instants are drawn from one counter, which
// orders all events that do not overlap.
//
// The invariant: if a purge of a key (or of a tag, or a Clear) has returned
// before a Get begins, that Get does not return a response of that key (with that
// tag; any response) whose write began before the purge. After a soft purge it
// can return one, if it is marked.
type history struct {
	s     *responses.Store
	clock atomic.Int64
	keys  []*invalidated
	tags  []*invalidated
	all   invalidated
}

// invalidated holds the instant at which the last completed invalidation began;
// of several that overlap, the latest start. It only rises.
type invalidated struct{ hard, soft atomic.Int64 }

func (i *invalidated) of(soft bool) *atomic.Int64 {
	if soft {
		return &i.soft
	}
	return &i.hard
}

func raise(a *atomic.Int64, to int64) {
	for {
		v := a.Load()
		if v >= to || a.CompareAndSwap(v, to) {
			return
		}
	}
}

const historyKeys, historyTags = 24, 8

func newHistory(bytes int64) *history {
	h := &history{s: responses.New(responses.Options{Bytes: bytes, Variants: 4})}
	for range historyKeys {
		h.keys = append(h.keys, &invalidated{})
	}
	for range historyTags {
		h.tags = append(h.tags, &invalidated{})
	}
	return h
}

func (h *history) now() int64 { return h.clock.Add(1) }

// since returns the instants before which the responses of k with these tags are
// invalid (hard) or have to be marked (soft).
func (h *history) since(k int, tags []int) (hard, soft int64) {
	hard = max(h.all.hard.Load(), h.keys[k].hard.Load())
	soft = h.keys[k].soft.Load()
	for _, g := range tags {
		hard = max(hard, h.tags[g].hard.Load())
		soft = max(soft, h.tags[g].soft.Load())
	}
	return hard, soft
}

// A born identifies the write that a response came from.
type born struct {
	at   int64
	key  int
	tags []int
}

// fetch stores a response as the engine does. It may take a while, and it may
// freshen the stored one.
func (h *history) fetch(r *rand.Rand) {
	k := r.IntN(historyKeys)
	w := h.s.Begin(key(path(k)))
	b := born{at: h.now(), key: k}
	var names []string
	for g := range historyTags {
		if r.IntN(4) == 0 {
			b.tags, names = append(b.tags, g), append(names, fmt.Sprintf("tag %d", g))
		}
	}
	for range r.IntN(4) {
		runtime.Gosched()
	}
	if r.IntN(10) == 0 {
		w.Drop()
		return
	}
	stored := response(r.IntN(3000), names...)
	var served any = b
	stored.Served.Store(&served)
	if old := h.s.Variants(key(path(k))); len(old) > 0 && r.IntN(4) == 0 {
		w.Replace(old[r.IntN(len(old))], stored)
		return
	}
	switch r.IntN(4) {
	case 0, 1:
		stored.Vary, stored.Selected = []string{"Accept-Language"}, path(r.IntN(6))
	case 2:
		apart, _ := forClient(path(r.IntN(6)))
		stored.Vary, stored.Selected, stored.Asked = apart.Vary, apart.Selected, apart.Asked
	}
	w.Put(stored)
}

// look reads a key by Get or by Variants, and checks the invariant.
func (h *history) look(t *testing.T, r *rand.Rand) {
	k := r.IntN(historyKeys)
	// Read the invalidations of all tags first: the tags of the response are
	// known only afterwards.
	hard, soft := make([]int64, historyTags), make([]int64, historyTags)
	for g := range historyTags {
		hard[g], soft[g] = h.since(k, []int{g})
	}
	keyHard, keySoft := h.since(k, nil)
	got := h.s.Variants(key(path(k)))
	_, client := forClient(path(r.IntN(6)))
	if one := h.s.Get(key(path(k)), asks(client)); one != nil {
		got = append(got, one)
	}
	if one := h.s.Get(key(path(k)), asks(nil)); one != nil {
		got = append(got, one)
	}
	for _, v := range got {
		b := (*v.Served.Load()).(born)
		mostHard, mostSoft := keyHard, keySoft
		for _, g := range b.tags {
			mostHard, mostSoft = max(mostHard, hard[g]), max(mostSoft, soft[g])
		}
		if b.key != k {
			t.Errorf("Get(%d) returned a response of %d", k, b.key)
		}
		if b.at < mostHard {
			t.Errorf("Get(%d) returned a response from %d; want none from before %d", k, b.at, mostHard)
		}
		if b.at < mostSoft && !v.Marked.Load() {
			t.Errorf("Get(%d) returned an unmarked response from %d; want those from before %d marked", k, b.at, mostSoft)
		}
		if r.IntN(20) == 0 {
			h.s.Remove(key(path(k)), v)
		}
	}
}

// invalidate purges a key, some tags, or everything.
func (h *history) invalidate(r *rand.Rand) {
	soft, began := r.IntN(2) == 0, h.now()
	switch n := r.IntN(20); {
	case n == 0:
		h.s.Clear()
		raise(&h.all.hard, began)
	case n < 10:
		k := r.IntN(historyKeys)
		h.s.Purge(key(path(k)), soft)
		raise(h.keys[k].of(soft), began)
	default:
		a, b := r.IntN(historyTags), r.IntN(historyTags)
		h.s.PurgeTags(soft, fmt.Sprintf("tag %d", a), fmt.Sprintf("tag %d", b))
		raise(h.tags[a].of(soft), began)
		raise(h.tags[b].of(soft), began)
	}
}

// A randomized history of everything a store can do, from eight goroutines. The
// bound is checked throughout, the invariant at each look, and the counters
// against the contents at the end.
func TestHistory(t *testing.T) {
	for _, tt := range []struct {
		name  string
		bytes int64
	}{{"roomy", 1 << 20}, {"tight", 40_000}} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHistory(tt.bytes)
			var wg sync.WaitGroup
			for g := range 8 {
				wg.Go(func() {
					r := rand.New(rand.NewPCG(uint64(g), 7))
					for range 4000 {
						switch n := r.IntN(20); {
						case n < 8:
							h.fetch(r)
						case n < 17:
							h.look(t, r)
						case n < 18:
							h.invalidate(r)
						case n < 19:
							if held := int64(r.IntN(5000)); h.s.Reserve(held) {
								runtime.Gosched()
								h.s.Reserve(-held)
							}
						default:
							wantBound(t, h.s)
						}
					}
				})
			}
			wg.Wait()
			h.s.Check(t)
			st := h.s.Stats()
			t.Logf("%+v", st)
			if st.Stored == 0 || st.Overtaken == 0 || st.Purged == 0 || tt.bytes < 100_000 && st.Evicted == 0 {
				t.Errorf("Stats = %+v; want at least one of each event", st)
			}
			h.s.Clear()
			if st := h.s.Stats(); st.Used != 0 || st.Reserved != 0 || st.Responses != 0 {
				t.Errorf("Stats after Clear = %+v; want nothing", st)
			}
		})
	}
}
