package member

import (
	"context"
	"slices"
	"time"

	"github.com/weir-go/weir/fleet"
)

// A Seat is taken before the Tier is asked about a key, and kept until the
// answer is where pushes find it (memory). So a push that comes between is not
// lost: it makes the answer count as overtaken.
//
//	A: the Tier answers with an entry
//	B: writes the key; the push finds nothing in A's memory
//	A: puts the old entry into memory, where it would stay
//
// A Seat is for one goroutine, but for Overtaken.
type Seat struct {
	m    *Member
	name string

	wake   chan struct{} // has room for one: something was pushed since the last question
	pushed uint64        // guarded by m.mu: the highest fence
	missed bool          // guarded by m.mu: there may have been others
	gone   bool          // guarded by m.mu
}

// Sit takes a Seat. It must be left.
func (m *Member) Sit(name string) *Seat {
	s := &Seat{m: m, name: name, wake: make(chan struct{}, 1)}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seats[name] = append(m.seats[name], s)
	return s
}

// Leave gives the Seat up. It may be called twice.
func (s *Seat) Leave() {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if s.gone {
		return
	}
	s.gone = true
	seats := s.m.seats[s.name]
	if len(seats) == 1 {
		delete(s.m.seats, s.name)
		return
	}
	i := slices.Index(seats, s)
	s.m.seats[s.name] = slices.Delete(seats, i, i+1)
}

// Overtaken reports whether what has this fence may be out of date. It takes the
// Member's lock, so it may be asked under the owner's.
func (s *Seat) Overtaken(fence uint64) bool {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	return s.missed || s.pushed > fence
}

func (s *Seat) wakeLocked() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// An Answer is the Tier's, with the entry's Value.
type Answer struct {
	fleet.Answer
	// Value is Entry's; nil if there is none, or none that this instance can
	// read or may use.
	Value *fleet.Value
}

// maxAsks bounds how often an entry that is of no use is asked past.
const maxAsks = 3

// Ask asks the Tier once. Entries that were invalidated by tag, and those that
// cannot be read here, count as absent. What is pending of the key is sent first,
// and if that fails there is no answer. An error that matches
// fleet.ErrUnavailable means that the instance is on its own.
func (s *Seat) Ask(ctx context.Context, ask fleet.Ask) (Answer, error) {
	m := s.m
	ask.Lease = m.o.Lease
	for try := range maxAsks {
		s.startOver()
		if err := m.yield(ctx, everything, subject{name: s.name}); err != nil {
			return Answer{}, m.counted(err)
		}
		if err := m.sync(ctx); err != nil {
			return Answer{}, m.counted(err)
		}
		m.count.acquires.Add(1)
		known := m.view(s.name)
		raw, err := m.o.Tier.Acquire(ctx, m.key(s.name), ask)
		if err != nil {
			return Answer{}, m.counted(err)
		}
		if known.contradicts(raw) {
			m.lose(known.turns)
			s.giveBack(raw)
			continue
		}
		a := Answer{Answer: raw}
		if raw.Entry != nil {
			if a.Value, err = s.read(ctx, raw.Entry); err != nil {
				s.giveBack(raw)
				return Answer{}, m.counted(err)
			}
		}
		if raw.Grant == fleet.Fresh && a.Value == nil {
			ask.NewerThan, ask.Joined = raw.Entry.Fence, 0
			if try == maxAsks-2 {
				ask.NewerThan = fleet.AnyFence // so that it ends with a lease, here or elsewhere
			}
			continue
		}
		m.tally(raw.Grant)
		return a, nil
	}
	return Answer{}, m.counted(&fleet.UnavailableError{Op: "acquire", Err: fleet.ErrWire})
}

// startOver forgets what was pushed before: what is read from now on is not what
// was missed, and an answer that knows of a change is not to be woken from.
func (s *Seat) startOver() {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	s.missed = false
	select {
	case <-s.wake:
	default:
	}
}

// read returns the Value of an entry if it is of use here.
func (s *Seat) read(ctx context.Context, e *fleet.Entry) (*fleet.Value, error) {
	v := new(fleet.Value)
	if v.UnmarshalBinary(e.Data) != nil || v.Codec != s.m.o.Codec && v.Kind == fleet.KindValue {
		return nil, nil
	}
	if out, err := s.m.outdated(ctx, v); out || err != nil {
		return nil, err
	}
	return v, nil
}

// giveBack ends a lease that came with an answer of which nothing can be made.
func (s *Seat) giveBack(a fleet.Answer) {
	if a.Grant == fleet.Granted {
		s.m.inBackground(func() { _, _ = s.m.settle(s.name, a.Fence, fleet.Outcome{}) }) // else it runs out
	}
}

func (m *Member) tally(g fleet.Grant) {
	switch g {
	case fleet.Fresh:
		m.count.fresh.Add(1)
	case fleet.Granted:
		m.count.granted.Add(1)
	case fleet.Held:
		m.count.held.Add(1)
	case fleet.Cooling:
		m.count.cooling.Add(1)
	}
}

// Await waits, after Ask was told Held, until it is time to ask again: at a
// push of the key, when pushes may have been missed, or when what remains of the
// lease is over, and a bit. It returns the cause of ctx if that ends first.
func (s *Seat) Await(ctx context.Context, remaining time.Duration) error {
	s.m.count.waits.Add(1)
	timer := time.NewTimer(max(remaining, 0) + Jitter(remaining))
	defer timer.Stop()
	select {
	case <-s.wake:
		return nil
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
