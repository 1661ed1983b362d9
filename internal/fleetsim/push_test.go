package fleetsim_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/weir-go/weir/fleet"
)

// A simPush delivers the engine's pushes to an instance: late, twice, in another
// order, or not at all.
type simPush struct{ l *simLink }

var _ fleet.Watcher = simPush{}

// A simHeard is a push that has reached an instance.
type simHeard struct {
	at      time.Duration
	key     string // for Changed
	tagged  bool
	tag     string
	number  uint64 // fence or number
	removed bool
	reset   bool
	own     bool // caused by the instance's own write
}

// Watch implements fleet.Tier.
func (l *simLink) Watch(namespace string, w fleet.Watcher) (func(), error) {
	l.watcher = w
	stop, err := l.w.engine.memory.Watch(namespace, simPush{l})
	return func() {
		stop()
		l.push.Lock()
		defer l.push.Unlock()
		l.stopped = true
	}, err
}

func (p simPush) Changed(name string, fence uint64, removed bool) {
	l := p.l
	p.send("changed", name, fence, simHeard{key: name, number: fence, removed: removed}, func(w fleet.Watcher) {
		w.Changed(name, l.shown(fence), removed)
	})
}

func (p simPush) Pushed(name string, e fleet.Entry, now uint64) {
	l := p.l
	p.send("pushed", name, e.Fence, simHeard{}, func(w fleet.Watcher) {
		e := e
		e.Fence = l.shown(e.Fence)
		w.Pushed(name, e, now)
	})
}

func (p simPush) Released(name string) {
	p.l.w.mu.Lock()
	n := p.l.w.engine.register(name).last
	p.l.w.mu.Unlock()
	p.send("released", name, n, simHeard{}, func(w fleet.Watcher) { w.Released(name) })
}

func (p simPush) Tagged(tag string, seq uint64) {
	p.send("tagged", tag, seq, simHeard{tagged: true, tag: tag, number: seq}, func(w fleet.Watcher) { w.Tagged(tag, seq) })
}

func (p simPush) Expired(tag string, seq uint64) {
	p.send("expired", tag, seq, simHeard{}, func(w fleet.Watcher) { w.Expired(tag, seq) })
}

func (p simPush) Lost()      { panic("the engine sends no Lost") }
func (p simPush) Recovered() { panic("the engine sends no Recovered") }
func (p simPush) Reset()     { panic("the engine sends no Reset") }

// send draws what happens to a push, and delivers it.
func (p simPush) send(op, name string, number uint64, h simHeard, tell func(fleet.Watcher)) {
	l, w := p.l, p.l.w
	w.mu.Lock()
	h.own = slices.ContainsFunc(w.engine.writes, func(wr simWrite) bool { return wr.by == l.in && wr.number == number && wr.key == h.key })
	r := w.draw(l.in.name, op, name, int(number))
	delays := []time.Duration{simDelay(r, 2*ms)}
	switch x := r.Float64(); {
	case x < w.o.latePush:
		delays[0] += simDelay(r, 300*ms)
	case x < 2*w.o.latePush:
		delays = append(delays, simDelay(r, 300*ms))
	}
	now := w.now()
	gone := l.dead || now < l.cut || now < l.deaf || now < l.dropped || r.Float64() < w.o.dropPush
	if gone {
		w.logLocked(l.in.name, "push %s %s #%d: lost", op, name, w.ordinal(number))
		w.mu.Unlock()
		return
	}
	what := fmt.Sprintf("%s %s #%d", op, name, w.ordinal(number))
	w.mu.Unlock()
	for _, d := range delays {
		w.late.Go(func() {
			time.Sleep(d)
			if l.isCut() {
				return
			}
			l.tell(what, d, h, tell)
		})
	}
}

// tell makes one call of the instance's Watcher.
func (l *simLink) tell(what string, salt time.Duration, h simHeard, tell func(fleet.Watcher)) {
	l.stand(salt)
	l.push.Lock()
	defer l.push.Unlock()
	if l.stopped {
		return
	}
	tell(l.watcher)
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	h.at = l.w.now()
	l.in.heard = append(l.in.heard, h)
	l.w.logLocked(l.in.name, "push %s", what)
}

// cutOff cuts the instance off for d: commands fail, at once or at their deadline,
// and pushes are lost until there is a new connection, which calls Reset.
func (l *simLink) cutOff(d, notice, again time.Duration, quick, pushesOnly bool) {
	w := l.w
	w.mu.Lock()
	now := w.now()
	if now < l.cut || now < l.deaf {
		w.mu.Unlock()
		return
	}
	if !pushesOnly {
		l.cut, l.cutQuick, l.faulty = now+d, quick, now+d
	}
	l.deaf = now + d + again
	w.logLocked(l.in.name, "cut off for %v (quick %v, pushes only %v)", d, quick, pushesOnly)
	w.mu.Unlock()
	w.late.Go(func() {
		time.Sleep(notice)
		l.tell("lost", notice, simHeard{}, func(w fleet.Watcher) { w.Lost() })
		time.Sleep(max(d+again-notice, 0))
		l.tell("reset", d, simHeard{reset: true}, func(w fleet.Watcher) { w.Reset() })
	})
}
