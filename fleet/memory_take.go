package fleet

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// meters are the limits of a Memory. A limit whose arrival time is in the past
// carries no information and is dropped.
type meters struct {
	of    map[Key]arrival
	sweep int // from this number on, limits without information are dropped
}

// An arrival is GCRA's theoretical arrival time (TAT) of the next permit.
type arrival struct {
	at   time.Duration
	each time.Duration // between two permits, at the Rate of the last request
}

const minMeterSweep = 64

var errTooManyLimits = errors.New("too many limits are in use")

// check returns an error if a field of r is out of bounds.
func (r Rate) check() error {
	if r.Permits < 1 || r.Per <= 0 || r.Burst < 1 {
		return fmt.Errorf("fleet: a rate of %d permits each %v with a burst of %d; all must be positive", r.Permits, r.Per, r.Burst)
	}
	return nil
}

// Take implements [Meter]. A permit's time is rounded up to a nanosecond, so a rate is
// at most one each nanosecond.
func (m *Memory) Take(ctx context.Context, key Key, r Rate, n int) (Taken, error) {
	if err := errors.Join(checkKey(key), r.check()); err != nil {
		return Taken{}, err
	}
	if n < 1 {
		return Taken{}, fmt.Errorf("fleet: %d permits; at least 1", n)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now, err := m.beginLocked(ctx, "take")
	if err != nil {
		return Taken{}, err
	}
	was, ok := m.meters.of[key]
	if !ok && !m.meters.room(now, m.maxKeys) {
		return Taken{}, &UnavailableError{Op: "take", Err: errTooManyLimits}
	}
	each := r.each()
	if ahead := was.at - now; ahead > 0 && was.each != each { // a new rate keeps the number of permits, not their time
		permits := float64(ahead) / float64(was.each)
		was.at = after(now, time.Duration(min(math.Ceil(permits*float64(each)), math.MaxInt64/2)))
	}
	t, at := r.take(max(was.at, now), now, n)
	if !ok {
		key = Key{Namespace: strings.Clone(key.Namespace), Name: strings.Clone(key.Name)}
	}
	m.meters.of[key] = arrival{at, each}
	return t, nil
}

// each returns the time between two permits.
func (r Rate) each() time.Duration { return (r.Per-1)/time.Duration(r.Permits) + 1 }

// take gives up to n permits. at is when the next would be due if they came at equal
// intervals; it may be ahead of now by Burst permits' time.
func (r Rate) take(at, now time.Duration, n int) (Taken, time.Duration) {
	each := r.each()
	ahead := time.Duration(math.MaxInt64 / 2)
	if time.Duration(r.Burst) <= ahead/each {
		ahead = time.Duration(r.Burst) * each
	}
	room := after(now, ahead) - at
	if room < each {
		return Taken{RetryAfter: each - room}, at
	}
	n = int(min(time.Duration(n), room/each))
	return Taken{Permits: n}, at + time.Duration(n)*each
}

// room reports whether there is room for one more limit, after dropping those without
// information.
func (s *meters) room(now time.Duration, most int) bool {
	if s.of == nil {
		s.of, s.sweep = make(map[Key]arrival), minMeterSweep
	}
	if len(s.of) >= min(s.sweep, most) {
		for key, one := range s.of {
			if one.at <= now {
				delete(s.of, key)
			}
		}
		s.sweep = max(minMeterSweep, 2*len(s.of))
	}
	return len(s.of) < most
}
