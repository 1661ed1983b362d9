package hotkeys

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/weir-go/weir/inspect"
)

// renewal is the number of half-lives after which all counts are divided again. A
// float64 would allow far more; the limit bounds how long an unused key is kept.
const renewal = 32

// least is the count below which a key is dropped and not reported: a call half
// an hour ago, or a nanosecond of load.
const least = 1e-9

// counters holds the counters of Space-Saving. Counts are relative to the time
// landmark: an amount added later is doubled for each half-life in between.
type counters[K comparable] struct {
	all      []counter[K] // never grows beyond its initial capacity
	at       map[K]int32  // the index of each key in all
	heap     []int32      // indices in all; the children of i, at 2i+1 and 2i+2, have counts at least as high as i's
	total    float64      // of all keys, including those without a counter
	landmark int64
}

// A counter counts one key.
type counter[K comparable] struct {
	key    K
	count  float64
	excess float64 // how much too high count may be; at most count
	place  int32   // index in the heap
}

func newCounters[K comparable](n int, now int64) counters[K] {
	return counters[K]{
		all:      make([]counter[K], 0, n),
		at:       make(map[K]int32, n),
		heap:     make([]int32, 0, n),
		landmark: now,
	}
}

// add adds amount to the count of key. It ignores an amount of zero, and a key
// that could never be found again because it is or contains a NaN.
func (c *counters[K]) add(key K, amount float64, now int64) {
	if amount == 0 || key != key {
		return
	}
	if now-c.landmark > renewal*int64(halfLife) {
		c.renew(now)
	}
	amount *= c.growth(now)
	c.total += amount
	i, ok := c.at[key]
	switch {
	case ok:
	case len(c.all) < cap(c.all):
		i = int32(len(c.all))
		c.all = append(c.all, counter[K]{key: key, place: i})
		c.heap = append(c.heap, i)
		c.at[key] = i
		c.up(i)
	default:
		i = c.heap[0]
		delete(c.at, c.all[i].key)
		c.at[key] = i
		c.all[i].key, c.all[i].excess = key, c.all[i].count
	}
	c.all[i].count += amount
	c.down(c.all[i].place)
}

// growth returns the weight, relative to the landmark, of one unit added now.
func (c *counters[K]) growth(now int64) float64 {
	return math.Exp2(float64(now-c.landmark) / float64(halfLife))
}

// renew makes now the landmark, and drops keys whose counts have faded to next to
// nothing. Their counters become free.
func (c *counters[K]) renew(now int64) {
	faded := 1 / c.growth(now)
	kept := c.all[:0]
	c.heap = c.heap[:0]
	clear(c.at)
	for _, old := range c.all {
		old.count *= faded
		old.excess *= faded
		if old.count < least {
			continue
		}
		i := int32(len(kept))
		old.place = i
		kept = append(kept, old)
		c.heap = append(c.heap, i)
		c.at[old.key] = i
	}
	clear(c.all[len(kept):]) // releases the keys
	c.all = kept
	for place := int32(len(c.heap)/2) - 1; place >= 0; place-- {
		c.down(place)
	}
	c.total *= faded
	c.landmark = now
}

// up moves the entry at place towards the root of the heap, as far as its count
// belongs.
func (c *counters[K]) up(place int32) {
	for place > 0 {
		parent := (place - 1) / 2
		if !c.less(place, parent) {
			return
		}
		c.swap(place, parent)
		place = parent
	}
}

// down moves the entry at place away from the root, as far as its count belongs.
func (c *counters[K]) down(place int32) {
	for {
		child := 2*place + 1
		if int(child) >= len(c.heap) {
			return
		}
		if int(child)+1 < len(c.heap) && c.less(child+1, child) {
			child++
		}
		if !c.less(child, place) {
			return
		}
		c.swap(child, place)
		place = child
	}
}

func (c *counters[K]) less(a, b int32) bool {
	return c.all[c.heap[a]].count < c.all[c.heap[b]].count
}

func (c *counters[K]) swap(a, b int32) {
	c.heap[a], c.heap[b] = c.heap[b], c.heap[a]
	c.all[c.heap[a]].place, c.all[c.heap[b]].place = a, b
}

// copy returns a copy of what top needs.
func (c *counters[K]) copy() counters[K] {
	return counters[K]{all: slices.Clone(c.all), total: c.total, landmark: c.landmark}
}

// top returns the keys with the highest counts, at most most of them, and the
// total, both in units per second. It reorders c.all, which must be a copy.
func (c *counters[K]) top(most int, window time.Duration, now int64) ([]inspect.HotKey, float64) {
	perSecond := 1 / (max(c.growth(now), 1) * window.Seconds())
	slices.SortFunc(c.all, func(a, b counter[K]) int {
		return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(a.excess, b.excess))
	})
	var keys []inspect.HotKey
	for _, k := range c.all[:min(most, len(c.all))] {
		if k.count*perSecond*window.Seconds() < least {
			break
		}
		keys = append(keys, inspect.HotKey{Key: k.key, Rate: k.count * perSecond, Excess: k.excess * perSecond})
	}
	return keys, c.total * perSecond
}
