package fleetsim_test

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-go/weir"
)

// play runs the history to its end, and a while longer: all faults are repaired,
// every call has returned, and no lease is held.
func (w *simWorld) play() {
	for slot := range w.o.instances {
		w.startInst(slot, 0)
	}
	for _, a := range w.o.actions {
		time.Sleep(a.at - w.now())
		w.do(a)
	}
	w.rest()
}

// do begins an action, and does not wait for it.
func (w *simWorld) do(a simAction) {
	w.mu.Lock()
	in := w.slots[a.inst]
	w.mu.Unlock()
	key, tag := fmt.Sprintf("k%d", a.key), fmt.Sprintf("t%d", a.tag)
	switch a.kind {
	case simGet, simGetMany, simRefresh:
		for i := range a.callers {
			w.mu.Lock()
			in := w.slots[(a.inst+i)%len(w.slots)]
			w.mu.Unlock()
			w.calls.Go(func() {
				time.Sleep(time.Duration(i) * 1003 * time.Nanosecond)
				own := a
				own.nth = time.Duration(i)
				in.ask(own, key)
			})
		}
	case simTruth, simSet, simInvalidate, simExpire, simInvalidateTags, simClear:
		w.calls.Go(func() { in.write(a, key, tag) })
	case simCrash:
		w.crash(a.inst)
		w.calls.Go(func() { w.startInst(a.inst, int(in.name[1]-'0')+1) })
	case simPause:
		w.mu.Lock()
		now := w.now()
		if in.link.paused < now {
			in.link.paused, in.link.faulty = now+a.lasts, now+a.lasts
			in.link.wasPaused += a.lasts
			w.logLocked(in.name, "is paused for %v", a.lasts)
		}
		w.mu.Unlock()
	case simCut:
		in.link.cutOff(a.lasts, a.lasts/3, time.Duration(a.tag)*20*ms+ms, a.quick, a.half)
	case simDrop:
		w.mu.Lock()
		in.link.dropped = max(in.link.dropped, w.now()+a.lasts)
		w.logLocked(in.name, "loses pushes for %v", a.lasts)
		w.mu.Unlock()
	}
}

// enter counts a call. The instance may be paused at that moment.
func (in *simInst) enter(what string, salt time.Duration) time.Duration {
	in.link.stand(salt)
	in.w.mu.Lock()
	defer in.w.mu.Unlock()
	in.w.open++
	in.w.logLocked(in.name, "call %s", what)
	return in.w.now()
}

// ask performs a call of a reader.
func (in *simInst) ask(a simAction, key string) {
	w, ctx := in.w, context.Background()
	keys := []string{key}
	c := simCall{in: in, began: in.enter(simKinds[a.kind]+" "+key, a.at+a.nth), patience: a.patience, kind: a.kind}
	if a.patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, a.patience)
		defer cancel()
	}
	answers := make(map[string]weir.Result[simValue])
	switch a.kind {
	case simGet:
		answers[key] = in.guard.GetResult(ctx, key)
	case simRefresh:
		answers[key] = in.guard.RefreshResult(ctx, key)
	default:
		for k := range w.o.keys {
			keys = append(keys, fmt.Sprintf("k%d", k))
		}
		keys = keys[1:]
		answers = in.guard.GetMany(ctx, keys)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open--
	c.ended = w.now()
	for _, key := range keys {
		w.answeredLocked(c, key, answers[key])
	}
}

// write performs a call of a writer: the source's value changes, and then the fleet
// is notified in one of several ways.
func (in *simInst) write(a simAction, key, tag string) {
	w := in.w
	in.link.stand(a.at)
	w.mu.Lock()
	if a.kind != simExpire && a.kind != simClear {
		w.truth[key]++
		w.logLocked("truth", "%s is version %d", key, w.truth[key])
	}
	v := simValue{Key: key, Version: w.truth[key]}
	if a.kind == simSet {
		n := in.begun[key]
		in.begun[key] = n + 1
		v.ID = fmt.Sprintf("[%s/%s#%d]", in.name, key, n)
		w.births[v.ID] = &simBirth{id: v.ID, key: key, in: in, version: v.Version, set: true, at: w.now(), began: w.now()}
	}
	w.mu.Unlock()
	if a.kind == simTruth {
		return
	}
	in.enter(fmt.Sprintf("%s %s %s %s", simKinds[a.kind], key, tag, v.ID), a.at)
	w.mu.Lock()
	ack := &simAck{kind: a.kind, began: w.now(), key: key, set: v.ID}
	switch a.kind {
	case simInvalidateTags:
		ack.tags = []string{tag}
	case simClear:
		ack.tags = []string{""}
	}
	in.acked = append(in.acked, ack)
	ctx := context.WithValue(context.Background(), simAckKey{}, ack)
	w.mu.Unlock()
	var err error
	switch a.kind {
	case simSet:
		err = in.guard.SetEntry(ctx, key, weir.Entry[simValue]{Value: v, Tags: w.o.tagsOf(key)})
	case simInvalidate:
		err = in.guard.Invalidate(ctx, key)
	case simExpire:
		err = in.guard.Expire(ctx, key)
	case simInvalidateTags:
		err = in.guard.InvalidateTags(ctx, tag)
	case simClear:
		err = in.guard.InvalidateAll(ctx)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open--
	ack.at, ack.ok = w.now(), err == nil
	if b := w.births[v.ID]; b != nil {
		b.ended = w.now()
	}
	w.logLocked(in.name, "done %s %s %s %s: %v", simKinds[a.kind], key, tag, v.ID, err)
	w.wroteLocked(in, ack, err)
}

// rest waits until every call has returned, ends the instances, and checks that no
// lease is held.
func (w *simWorld) rest() {
	const patience = 3 * time.Minute
	for waited := time.Duration(0); ; waited += sec {
		time.Sleep(sec)
		w.mu.Lock()
		open := w.open
		w.mu.Unlock()
		if open == 0 || waited > patience {
			break
		}
	}
	w.mu.Lock()
	if w.open > 0 {
		w.breakLocked("answer: %d calls have not returned after %v", w.open, patience)
	}
	slots := append([]*simInst(nil), w.slots...)
	w.mu.Unlock()
	time.Sleep(w.o.lease + w.o.loadTimeout*2 + simMostPause)
	w.mu.Lock()
	for key, r := range w.engine.registers {
		if now := w.now(); r.lease > now {
			w.breakLocked("lease: %s is held for %v at rest", key, r.lease-now)
		}
		if n := len(w.running[key]); n > 0 {
			w.breakLocked("loads: %d loads of %s run at rest", n, key)
		}
	}
	w.settledUpLocked()
	for _, in := range slots {
		in.closed = w.now()
	}
	w.mu.Unlock()
	for _, in := range slots {
		in.close()
		if s := in.guard.Stats(); s.Fleet.Pending > 0 || s.Fleet.Blocked {
			w.break_("end: %s has %d invalidations pending after Close", in.name, s.Fleet.Pending)
		} else if s.Flights+s.Running+s.Refreshing+s.Stuck > 0 {
			w.break_("end: %s has %d flights, %d loads, %d refreshes and %d stuck after Close", in.name, s.Flights, s.Running, s.Refreshing, s.Stuck)
		}
	}
	w.calls.Wait()
	w.late.Wait()
	w.engine.memory.Close(context.Background())
}
