package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weir-go/weir/jobs/internal/journal"
)

// A KeyLimit bounds the jobs with one SubmitOptions.LimitKey in a queue, over all
// Workers of the fleet. The zero KeyLimit is no bound.
type KeyLimit struct {
	// Concurrency is the number of jobs that run at once, up to MaxKeyConcurrency.
	// Default: no bound.
	Concurrency int

	// PerSecond is the number of attempts that start per second in the long run, from
	// 0.0001 to MaxKeyRate. Default: no bound.
	PerSecond float64

	// Burst is the number of attempts that can start at once after a pause, up to
	// MaxKeyRate. It needs PerSecond. Default: a tenth of PerSecond, and at least 1.
	Burst int
}

// Bounds of a KeyLimit.
const (
	MaxKeyConcurrency = 1000   // KeyLimit.Concurrency
	MaxKeyRate        = 1000   // KeyLimit.Rate
	MaxKeyLimits      = 10_000 // of QueueOptions.KeyLimits

	minKeyRate = 0.0001
)

func (l KeyLimit) validate(f *faults, field string) {
	f.Check(0 <= l.Concurrency && l.Concurrency <= MaxKeyConcurrency, field+".Concurrency", l.Concurrency, fmt.Sprintf("from 1 to %d, or 0 for no bound", MaxKeyConcurrency))
	f.Check(l.PerSecond == 0 || minKeyRate <= l.PerSecond && l.PerSecond <= MaxKeyRate, field+".PerSecond", l.PerSecond, fmt.Sprintf("from %v to %d, or 0 for no bound", minKeyRate, MaxKeyRate))
	f.Check(0 <= l.Burst && l.Burst <= MaxKeyRate, field+".Burst", l.Burst, fmt.Sprintf("from 1 to %d, or 0 for the default", MaxKeyRate))
	f.Check(l.Burst == 0 || l.PerSecond != 0, field+".Burst", l.Burst, "0 without PerSecond")
}

// interval is the time between two starts in the long run; 0: no bound.
func (l KeyLimit) interval() time.Duration {
	if l.PerSecond == 0 {
		return 0
	}
	return time.Duration(float64(time.Second) / l.PerSecond)
}

func (l KeyLimit) burst() int {
	if l.Burst == 0 {
		return max(1, int(math.Floor(l.PerSecond/10)))
	}
	return l.Burst
}

// keyLimit returns the limit of a LimitKey.
func (o *QueueOptions) keyLimit(key string) KeyLimit {
	if l, ok := o.KeyLimits[key]; ok {
		return l
	}
	return o.KeyLimit
}

// A gate is the state of one LimitKey: a single message, which is replaced by
// compare-and-swap. A place is taken before the job is marked as running, so that of
// many jobs that find a free place only one is started.
type gate struct {
	Form    int          `json:"v"` // gateForm
	Holders []gateHolder `json:"holders,omitempty"`
	// Full is when the rate's bucket is full again, by the server's clock. One start
	// moves it by an interval (GCRA: ITU-T I.371).
	Full time.Time `json:"full,omitzero"`
	// At is when Full was set, by the same clock. If it is in the future, the clock was
	// set back since.
	At time.Time `json:"at,omitzero"`
}

func decodeGate(data []byte) (g gate, err error) {
	err = json.Unmarshal(data, &g)
	if err == nil && g.Form != gateForm {
		err = fmt.Errorf("it has format %d; this program reads %d", g.Form, gateForm)
	}
	return g, err
}

// A gateHolder is an attempt that has a place. It needs no renewal: it is void once the
// job has changed since and is not running with that attempt, and if the attempt has not
// been marked as running for a lease. So the place of a dead worker is free once its
// job's next attempt has taken it over, or the job has ended otherwise.
type gateHolder struct {
	Job     string    `json:"job"`
	Attempt int       `json:"attempt"`
	After   uint64    `json:"after"` // the job's revision before the attempt
	At      time.Time `json:"at"`    // by the server's clock
}

// gateForm is the version of the format of gates. A program refuses to read any other.
const gateForm = 1

// kindGate is the journal's kind of gates.
const kindGate journal.Kind = "k"

// A keySlot is an attempt's place behind the gate of its LimitKey.
type keySlot struct {
	q      *queue
	id     string // of the gate
	limit  KeyLimit
	holder gateHolder

	gate    gate
	after   uint64
	written time.Time // when the gate that was read was written, by the server's clock
	taken   time.Time // by the clock of this machine; zero: not taken
}

var _ lock = (*keySlot)(nil)

// slot returns the job's place behind the gate of its LimitKey, which is neither read nor
// taken; nil: there is no limit.
func (d *delivery) slot() *keySlot {
	q := d.w.queue
	l := q.o.keyLimit(d.LimitKey)
	if d.LimitKey == "" || l == (KeyLimit{}) {
		return nil
	}
	return &keySlot{
		q: q, id: idOf(q.store.o.Namespace, q.name, "limit\x00"+d.LimitKey), limit: l,
		holder: gateHolder{Job: d.work.ID, Attempt: d.Attempt + 1, After: d.revision},
	}
}

func (s *keySlot) name() string        { return s.id }
func (s *keySlot) step() time.Duration { return s.limit.interval() }

// takeTries bounds how often an attempt reads a gate again that others have changed.
const takeTries = 16

// look takes a place, or returns why the job has to wait.
func (s *keySlot) look(ctx context.Context, w *Worker) (*busy, error) {
	for range takeTries {
		if err := s.read(ctx); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(s.gate.Holders, func(h gateHolder) bool { return h.Job == s.holder.Job }) {
			return &busy{id: s.id}, nil // the item was delivered twice
		}
		wait := s.wait()
		if wait != nil && wait.step == 0 && w.lots.mayVerify(s.id) {
			if err := s.verify(ctx); err != nil {
				return nil, err
			}
			wait = s.wait()
		}
		if wait != nil {
			return wait, nil
		}
		err := s.write(ctx, s.entered())
		if err == nil {
			s.taken = time.Now()
			return nil, nil
		}
		if !errors.Is(err, journal.ErrStale) {
			return nil, err
		}
	}
	return &busy{id: s.id}, nil
}

// read reads the gate, without the place of this job's last attempt, or of another
// delivery of the item whose worker has died.
func (s *keySlot) read(ctx context.Context) error {
	m, err := s.q.store.journal.ReadKind(ctx, s.q.name, s.id, kindGate)
	if err != nil {
		return err
	}
	s.gate, s.after = gate{}, 0
	if m == nil {
		return nil
	}
	s.after, s.written = m.Seq, m.Time
	if s.gate, err = decodeGate(m.Data); err != nil {
		return fmt.Errorf("jobs: a limit of queue %q cannot be read: %w", s.q.name, err)
	}
	s.gate.Holders = slices.DeleteFunc(s.gate.Holders, func(h gateHolder) bool {
		return h.Job == s.holder.Job && (h.After < s.holder.After || !s.fresh(h))
	})
	if now := s.q.store.journal.Now(); s.gate.At.After(now.Add(clockSlack)) {
		// The clock was set back, and it is unknown how much of the bucket is used up. It
		// counts as used up but for one start: the next job starts, and those after it
		// follow at the rate. Otherwise all of them would wait until the clock reached
		// that time again.
		if full := now.Add(time.Duration(s.limit.burst()-1) * s.limit.interval()); s.gate.Full.After(full) {
			s.gate.Full = full
		}
	}
	return nil
}

// fresh reports whether a holder that is not marked as running may still be about to be:
// it has taken its place less than a lease ago. It did so before the gate was last
// written, however wrong the time is that it noted. A time in the future is from before
// the clock was set back, and counts as long ago.
func (s *keySlot) fresh(h gateHolder) bool {
	at := h.At
	if s.written.Before(at) {
		at = s.written
	}
	passed := s.q.store.journal.Now().Sub(at)
	return -clockSlack < passed && passed < s.q.o.Lease
}

// wait returns why another job has to wait, or nil.
func (s *keySlot) wait() *busy {
	if n := s.limit.Concurrency; n > 0 && len(s.gate.Holders) >= n {
		return &busy{id: s.id}
	}
	if step := s.limit.interval(); step > 0 {
		// The bucket has room for one start while it is full again within burst-1 steps.
		due, now := s.gate.Full.Add(-time.Duration(s.limit.burst()-1)*step), s.q.store.journal.Now()
		if due.After(now) { // compared first: the difference to the zero time overflows
			return &busy{id: s.id, wait: due.Sub(now), step: step}
		}
	}
	return nil
}

// entered returns the gate with one more attempt.
func (s *keySlot) entered() gate {
	g, now := s.gate, s.q.store.journal.Now()
	g.Form, s.holder.At = gateForm, now
	if s.limit.Concurrency > 0 {
		g.Holders = append(slices.Clone(g.Holders), s.holder)
	}
	if step := s.limit.interval(); step > 0 {
		g.Full, g.At = later(g.Full, now).Add(step), now
	}
	return g
}

// maxVerified bounds the holders that one look at a full gate checks.
const maxVerified = 8

// verify removes void holders from s.gate. It checks a random few: a gate can have a
// thousand holders, and any of them can be void.
func (s *keySlot) verify(ctx context.Context) error {
	all := s.gate.Holders
	for n, i := range rand.Perm(len(all)) {
		if n == maxVerified {
			break
		}
		held, err := s.holds(ctx, all[i])
		if err != nil {
			return err
		}
		if !held {
			all[i] = gateHolder{}
		}
	}
	s.gate.Holders = slices.DeleteFunc(all, func(h gateHolder) bool { return h == gateHolder{} })
	return nil
}

// holds reports whether a holder is not void. In a cluster, a former leader may respond
// with a state from before the attempt; that says nothing.
func (s *keySlot) holds(ctx context.Context, h gateHolder) (bool, error) {
	l, ok, err := s.q.store.look(ctx, s.q.name, h.Job)
	switch {
	case err != nil || !ok:
		return false, err
	case l.revision < h.After:
		return true, nil
	case l.revision == h.After: // not marked as running yet
		return s.fresh(h), nil
	}
	return l.State == StateRunning && l.Attempt == h.Attempt, nil
}

// take confirms the place after the job was marked as running. If that took long, the
// place may have become void in between, and another job may have it.
func (s *keySlot) take(ctx context.Context, _ uint64) bool {
	if s.limit.Concurrency == 0 || time.Since(s.taken) < s.q.o.Lease/2 {
		return true
	}
	m, err := s.q.store.journal.ReadKind(ctx, s.q.name, s.id, kindGate)
	if err != nil || m == nil {
		return false
	}
	g, err := decodeGate(m.Data)
	return err == nil && slices.ContainsFunc(g.Holders, s.holder.is)
}

func (h gateHolder) is(o gateHolder) bool {
	return h.Job == o.Job && h.After == o.After && h.At.Equal(o.At)
}

// write replaces the gate. Only attempts of this process depend on the places that it
// takes, so no flush is awaited.
func (s *keySlot) write(ctx context.Context, g gate) error {
	seq, err := s.q.store.journal.Put(ctx, journal.Write{
		Queue: s.q.name, ID: s.id, Kind: kindGate, Meta: []byte("{}"), Data: encode(g), After: s.after, TTL: lockTTL, Mine: true,
	})
	if err == nil {
		s.gate, s.after = g, seq
	}
	return err
}

// drop leaves the place.
func (s *keySlot) drop() {
	if s.taken.IsZero() || s.limit.Concurrency == 0 {
		return
	}
	ctx := context.Background() // the journal has a timeout
	for range takeTries {
		g := s.gate
		g.Holders = slices.DeleteFunc(slices.Clone(g.Holders), s.holder.is)
		err := s.write(ctx, g)
		if err == nil || !errors.Is(err, journal.ErrStale) {
			break
		}
		m, err := s.q.store.journal.ReadKind(ctx, s.q.name, s.id, kindGate)
		if err != nil || m == nil {
			break
		}
		if s.gate, err = decodeGate(m.Data); err != nil {
			break
		}
		s.after = m.Seq
	}
	s.q.store.journal.TellFree(s.q.name, s.id)
}
