package weirhttp

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	mostOver = 64          // addresses that are counted
	overHalf = time.Minute // in which counts are halved: the latest refusals matter
)

// A ClientShare is a client's part of the refusals of a ClientBudget.
type ClientShare struct {
	Address string  `json:"address"` // address of the client
	Share   float64 `json:"share"`   // of the latest refusals, from 0 to 1; at most slightly too high
}

// over counts the latest refusals by the address of the client, in a bounded table: a new address
// takes the place and the count of the one with the fewest (Metwally et al., ICDT 2005). Keys can be
// credentials, and are not kept.
type over struct {
	mu     sync.Mutex
	counts map[string]float64 // guarded by mu
	all    float64            // guarded by mu
	halved time.Time          // guarded by mu
}

func (o *over) add(address string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.decayLocked()
	if o.counts == nil {
		o.counts = make(map[string]float64)
	}
	least := 0.0
	if _, known := o.counts[address]; !known && len(o.counts) >= mostOver {
		fewest := ""
		for name, n := range o.counts {
			if fewest == "" || n < least {
				fewest, least = name, n
			}
		}
		delete(o.counts, fewest)
	}
	o.counts[address] += least + 1
	o.all++
}

// decayLocked halves the counts for each overHalf that has passed. o.mu must be held.
func (o *over) decayLocked() {
	now := time.Now()
	if o.halved.IsZero() {
		o.halved = now
	}
	for n := now.Sub(o.halved) / overHalf; n > 0; n-- {
		o.halved = now
		if n > 20 {
			clear(o.counts)
			o.all = 0
			return
		}
		o.all /= 2
		for name := range o.counts {
			o.counts[name] /= 2
		}
	}
}

// Refused returns the clients that have lately been refused most, at most that many, the first
// first. A client is named by its address, also if another field identifies it.
func (b *ClientBudget) Refused(most int) []ClientShare {
	o := &b.over
	o.mu.Lock()
	defer o.mu.Unlock()
	o.decayLocked()
	var all []ClientShare
	for name, n := range o.counts {
		if n >= .5 {
			all = append(all, ClientShare{cmp.Or(name, "unknown"), min(1, n/max(o.all, 1))})
		}
	}
	slices.SortFunc(all, func(a, b ClientShare) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), strings.Compare(a.Address, b.Address))
	})
	return all[:min(len(all), max(most, 0))]
}
