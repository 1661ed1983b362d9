package fleet

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// meters are the limits of a Memory: for each key the theoretical arrival time
// (GCRA's TAT) of the next permit. One in the past says nothing and is dropped.
type meters struct {
	at    map[Key]time.Duration
	sweep int // the number from which on those that say nothing are dropped
}

const minMeterSweep = 64

var errTooManyLimits = errors.New("too many limits are in use")

// check says what is wrong with a Rate.
func (r Rate) check() error {
	if r.Permits < 1 || r.Per <= 0 || r.Burst < 1 {
		return fmt.Errorf("fleet: a rate of %d permits each %v with a burst of %d; all must be positive", r.Permits, r.Per, r.Burst)
	}
	return nil
}

// Take is of [Meter]. A permit's time is rounded up to a nanosecond, so a rate is
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
	at, ok := m.meters.at[key]
	if !ok && !m.meters.room(now, m.maxKeys) {
		return Taken{}, &UnavailableError{Op: "take", Err: errTooManyLimits}
	}
	t, at := r.take(max(at, now), now, n)
	if !ok {
		key = Key{Namespace: strings.Clone(key.Namespace), Name: strings.Clone(key.Name)}
	}
	m.meters.at[key] = at
	return t, nil
}

// take gives up to n permits. at is when the next would be due if they came
// evenly; it may be ahead of now by Burst permits' time.
func (r Rate) take(at, now time.Duration, n int) (Taken, time.Duration) {
	each := (r.Per-1)/time.Duration(r.Permits) + 1
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

// room reports whether there is room for one more, after dropping what says
// nothing.
func (s *meters) room(now time.Duration, most int) bool {
	if s.at == nil {
		s.at, s.sweep = make(map[Key]time.Duration), minMeterSweep
	}
	if len(s.at) >= min(s.sweep, most) {
		for key, at := range s.at {
			if at <= now {
				delete(s.at, key)
			}
		}
		s.sweep = max(minMeterSweep, 2*len(s.at))
	}
	return len(s.at) < most
}
