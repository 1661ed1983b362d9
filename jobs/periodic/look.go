package periodic

import (
	"context"
	"fmt"
	"time"
)

// look decides about each tick that is due. One tick is one round:
//
//  1. Read the mark. If the previous tick is claimed, commit its job: the instance that
//     claimed it may have died.
//  2. Find the next tick that is due, by the rule for missed ticks.
//  3. Claim its job: it is stored and does not run.
//  4. Replace the mark by one with the tick and the claim, if it is still the one that
//     was read. One instance succeeds; each later mark has a later tick, so no tick is
//     decided twice.
//  5. Commit the claim. Any instance that reads the mark does the same, and the Store
//     accepts a claim once, however late an instance wakes.
//
// A claim that no mark names is never committed.
func (r *runner) look(stop, ctx context.Context) error {
	expected, mine := r.next, false
	for range maxRaces + MaxCatchUp {
		m, revision, ok, err := r.read(ctx)
		if err != nil {
			return err
		}
		now := r.ledger.Now()
		if !ok {
			first := mark{Last: now.Truncate(time.Second)}.with(r.spec.print(), now)
			if _, err := r.write(ctx, first, 0); err != nil {
				return err
			}
			continue
		}
		since, ok := m.since(r.spec.print())
		if !ok {
			// Another definition, or the first look of this one. An instance that has
			// been here before has not missed the ticks since then.
			if since = r.known; since.IsZero() {
				since = now
			}
			if _, err := r.write(ctx, m.with(r.spec.print(), since), revision); err != nil {
				return err
			}
			continue
		}
		if err := r.settle(ctx, m); err != nil {
			return err
		}
		if !mine && !expected.IsZero() && !m.Last.Before(expected) {
			r.event(ctx, Event{Kind: EventLost, Tick: m.Last})
			expected = time.Time{}
		}
		base := later(m.Last, since)
		p := r.plan(base, now)
		if p.tick.IsZero() && p.skipped == 0 {
			return r.rest(m, base, now)
		}
		if stop.Err() != nil {
			return nil
		}
		won, err := r.decide(ctx, m, revision, p)
		if err != nil {
			return err
		}
		mine = mine || won
	}
	return errContended
}

// settle commits the claim of a mark, if there is one.
func (r *runner) settle(ctx context.Context, m mark) error {
	if m.Claim == nil || *m.Claim == r.settled {
		return nil
	}
	accepted, err := r.ledger.Commit(ctx, *m.Claim)
	if err != nil {
		return err
	}
	r.settled = *m.Claim
	if accepted {
		r.event(ctx, Event{Kind: EventSubmitted, Tick: m.Last, Queue: m.Claim.Queue, ID: m.Claim.ID})
	}
	return nil
}

// decide replaces the mark by one that has the plan's tick, and reports whether no other
// instance was faster. The next round commits its claim.
func (r *runner) decide(ctx context.Context, m mark, revision uint64, p plan) (bool, error) {
	m.Last, m.Claim = p.last, nil
	if !p.tick.IsZero() {
		c, ok, err := r.claim(ctx, p.tick)
		if err != nil {
			return false, err
		}
		m.Last = p.tick
		if ok { // otherwise somebody has submitted a job with the tick's key
			m.Claim = &c
		}
	}
	won, err := r.write(ctx, m, revision)
	if won && p.skipped > 0 {
		r.event(ctx, Event{Kind: EventMissed, Tick: p.last, First: p.first, Count: p.skipped})
	}
	return won, err
}

// rest notes that nothing is due.
func (r *runner) rest(m mark, base, now time.Time) error {
	r.known = now
	r.next, _ = r.spec.next(later(base, now))
	r.mu.Lock()
	r.status.Next, r.status.Last, r.status.Err = r.next, m.Last, nil
	r.mu.Unlock()
	if ahead := m.Last.Sub(now); ahead > maxAhead {
		return fmt.Errorf("%w: schedule %q by %v", ErrAhead, r.schedule.Name, ahead.Round(time.Second))
	}
	return nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
