package admit_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/admit"
	"github.com/weir-go/weir/limit"
)

// A load is a Shared for tests. Each element of says is the limiter's reply to
// one request.
type load struct {
	sync.Mutex
	t       *testing.T
	demand  admit.Demand
	over    bool
	says    []func(*load) error
	asked   []time.Time // the deadlines
	queued  int
	refused error
}

func (l *load) QueueLocked(*limit.Place)           { l.locked(); l.queued++ }
func (l *load) DemandLocked() (admit.Demand, bool) { l.locked(); return l.demand, !l.over }
func (l *load) RefusedLocked(err error)            { l.locked(); l.refused = err }

func (l *load) Ask(ctx context.Context) (limit.Permit, error) {
	until, _ := ctx.Deadline()
	l.asked = append(l.asked, until)
	return limit.Permit{}, l.says[len(l.asked)-1](l)
}

func (l *load) locked() {
	if l.TryLock() {
		l.t.Helper()
		l.t.Error("called without the lock")
		l.Unlock()
	}
}

// F3: a refusal ends the call only if it applies to all callers that wait by
// then.
func TestF3AcquireAsksAgainForThoseWhoJoined(t *testing.T) {
	tooLong, down := error(&limit.Error{Reason: limit.WaitTooLong}), errors.New("down")
	patient := func(l *load) error { l.demand.Until = later; return tooLong }
	for _, tt := range []struct {
		name  string
		says  []func(*load) error
		asked int
		want  error
	}{
		{"a permit", []func(*load) error{func(*load) error { return nil }}, 1, nil},
		{"a refusal", []func(*load) error{func(*load) error { return tooLong }}, 1, tooLong},
		{"one with more time has joined", []func(*load) error{patient, func(*load) error { return nil }}, 2, nil},
		{"and is refused as well", []func(*load) error{patient, patient}, 2, tooLong},
		{"the limiter is broken", []func(*load) error{func(l *load) error { l.demand.Until = later; return down }}, 1, down},
		{"the call has ended meanwhile", []func(*load) error{func(l *load) error { l.over = true; return patient(l) }}, 1, tooLong},
	} {
		l := &load{t: t, demand: admit.Demand{Until: soon}, says: tt.says}
		if _, err := admit.Acquire(t.Context(), l); !errors.Is(err, tt.want) || !errors.Is(l.refused, tt.want) {
			t.Errorf("%s: Acquire = %v, and the call ended with %v; want %v", tt.name, err, l.refused, tt.want)
		}
		if len(l.asked) != tt.asked || l.queued != tt.asked || tt.asked == 2 && l.asked[1] != later {
			t.Errorf("%s: asked for %v, queued %d times; want %d, the last for %v", tt.name, l.asked, l.queued, tt.asked, later)
		}
	}
}
