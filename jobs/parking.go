package jobs

import (
	"math/rand/v2"
	"sync"
	"time"
)

// A job that has to wait for a lock or a gate is parked: its item is handed back with a
// delay, and the process remembers how to hand it back once more, without one. That
// starts it at once:
//
//	worker A  receives the item of job 2; the gate is full
//	worker A  hands it back with a delay of some seconds, and remembers it
//	worker B  ends job 1, leaves the gate, and announces that
//	worker A  hands the item back again, without a delay
//	any       receives the item
//
// If the announcement is lost, or worker A dies, the delay ends. So waiting jobs cost
// next to nothing, and no job depends on a process. What a process remembers may be
// outdated: another worker may have the item by now. Handing it back then only delivers
// it once more, which take treats as any late delivery.

// busy is why a job has to wait.
type busy struct {
	id   string        // of the lock or gate
	wait time.Duration // until the rate allows the next start
	step time.Duration // between two starts; 0: it waits for an attempt to end
	gen  uint64        // of the lot before the look
}

// Bounds of the parking.
const (
	// minPark and maxPark bound the delay of a parked job.
	minPark = 2 * time.Second
	maxPark = time.Minute
	// parkShare makes the delay longer the more jobs are parked: each process looks at
	// one of them in that time, on average.
	parkShare = 10 * time.Millisecond
	// knowFor is how long a process does not look again at a lock or gate that was
	// taken, unless it hears that it is free.
	knowFor = 100 * time.Millisecond
	// verifyEvery is how often a process checks the holders of a full gate.
	verifyEvery = time.Second
	// parkMargin is how long before the end of its delay an item is forgotten. If it were
	// handed back at that moment, two workers would receive it.
	parkMargin = 100 * time.Millisecond
	// maxParked bounds the items that a Worker remembers, and maxLots the locks and
	// gates. The items of others start after their delay.
	maxParked = 16384
	maxLots   = 4096
)

// lots are the parked items of a Worker, by the lock or gate that they wait for.
type lots struct {
	mu     sync.Mutex
	all    map[string]*lot // guarded by mu
	parked int             // guarded by mu; the items in all
}

// A lot has the parked items of one lock or gate, in the order of parking.
type lot struct {
	items    []parkedItem
	taken    time.Time // until then, jobs are parked without a look
	last     time.Time // of a rate: when the last parked job is due
	verified time.Time
	gen      uint64 // counts announcements that the lock or gate may be free
}

type parkedItem struct {
	job   string
	reply string    // where its item is handed back
	until time.Time // shortly before the end of its delay
}

// lotLocked returns the lot of a lock or gate, or nil if there are too many. mu must be
// held.
func (p *lots) lotLocked(id string) *lot {
	l := p.all[id]
	if l == nil {
		if len(p.all) >= maxLots && !p.sweepLocked() {
			return nil
		}
		if p.all == nil {
			p.all = make(map[string]*lot)
		}
		l = &lot{}
		p.all[id] = l
	}
	return l
}

// sweepLocked forgets lots without items, and reports whether there were any. mu must
// be held.
func (p *lots) sweepLocked() bool {
	now, before := time.Now(), len(p.all)
	for id, l := range p.all {
		p.expireLocked(l, now)
		if len(l.items) == 0 && l.taken.Before(now) {
			delete(p.all, id)
		}
	}
	return len(p.all) < before
}

// expireLocked forgets the items whose delay has ended. mu must be held.
func (p *lots) expireLocked(l *lot, now time.Time) {
	kept := l.items[:0]
	for _, i := range l.items {
		if i.until.After(now) {
			kept = append(kept, i)
		}
	}
	p.parked -= len(l.items) - len(kept)
	l.items = kept
}

// known returns a busy if the lock or gate is known to be taken, so that the job can be
// parked without a look. In any case it returns the generation for the busy that a look
// finds.
func (p *lots) known(id string, step time.Duration) (*busy, uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.all[id]
	if l == nil {
		return nil, 0
	}
	if wait := time.Until(l.taken); wait > 0 {
		return &busy{id: id, wait: wait, step: step, gen: l.gen}, l.gen
	}
	return nil, l.gen
}

// mayVerify reports whether it is time to check the holders of a gate.
func (p *lots) mayVerify(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.lotLocked(id)
	if l == nil || time.Since(l.verified) < verifyEvery {
		return l == nil
	}
	l.verified = time.Now()
	return true
}

// park remembers an item that has to wait, and returns its delay. If the lock or gate
// was announced as free since the look, there is none.
func (p *lots) park(b *busy, job, reply string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.lotLocked(b.id)
	switch {
	case l == nil:
		return max(b.wait, minPark/2+rand.N(minPark))
	case l.gen != b.gen:
		return 0
	}
	now := time.Now()
	p.expireLocked(l, now)
	delay := l.delay(b, now)
	if b.step > 0 {
		l.taken = later(l.taken, now.Add(min(b.wait, maxPark)))
	} else {
		l.taken = later(l.taken, now.Add(knowFor))
	}
	if p.parked < maxParked {
		l.items = append(l.items, parkedItem{job, reply, now.Add(delay - parkMargin)})
		p.parked++
	}
	return delay
}

// delay returns the delay of the next item. Of those that wait for a rate, one is due at
// each start that the rate allows. The mutex of the lots must be held.
func (l *lot) delay(b *busy, now time.Time) time.Duration {
	if b.step == 0 {
		d := min(max(minPark, time.Duration(len(l.items))*parkShare), maxPark)
		return d/2 + rand.N(d/2+1)
	}
	at := now.Add(b.wait)
	if next := l.last.Add(b.step); l.last.After(now) && next.After(at) {
		at = next
	}
	if d := at.Sub(now); d <= maxPark {
		l.last = at
		return d
	}
	return max(min(b.wait, maxPark), maxPark/2) + rand.N(maxPark/2)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// leave forgets the item of a job that was delivered again.
func (p *lots) leave(id, job string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.all[id]
	if l == nil {
		return
	}
	for n, i := range l.items {
		if i.job == job {
			l.items = append(l.items[:n], l.items[n+1:]...)
			p.parked--
			return
		}
	}
}

// free takes the first item that waits for a lock or gate, which may be free now.
func (p *lots) free(id string) (reply string, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.lotLocked(id)
	if l == nil {
		return "", false
	}
	now := time.Now()
	p.expireLocked(l, now)
	l.gen++
	l.taken = now
	if len(l.items) == 0 {
		return "", false
	}
	first := l.items[0]
	l.items = l.items[1:]
	p.parked--
	return first.reply, true
}

// park hands an item back until its lock or gate may be free.
func (d *delivery) park(b *busy) error {
	d.w.mu.Lock()
	d.w.stats.Parked++
	d.w.mu.Unlock()
	if delay := d.w.lots.park(b, d.work.ID, d.m.Reply()); delay > 0 {
		return d.m.NakWithDelay(delay)
	}
	return d.m.Nak()
}

// freed starts one of the jobs that wait for a lock or gate.
func (w *Worker) freed(id string) {
	if reply, ok := w.lots.free(id); ok {
		w.queue.store.journal.HandBack(reply)
	}
}
