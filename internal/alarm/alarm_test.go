package alarm_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/alarm"
)

// A log records when it was notified.
type log struct {
	began time.Time
	mu    sync.Mutex
	at    [3][]time.Duration // guarded by mu
}

func (l *log) Due(s alarm.Slot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at[s] = append(l.at[s], time.Since(l.began))
}

// Each deadline is met at its time, whatever the timer was set for, and one that was moved
// or cleared is not.
func TestEachDeadlineIsMetInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a alarm.Alarm
		l := &log{began: time.Now()}
		set := func(s alarm.Slot, after time.Duration) { a.Set(s, l, time.Now(), time.Now().Add(after)) }
		set(alarm.Head, 10*time.Second)
		set(alarm.Client, 5*time.Second) // earlier than the timer
		set(alarm.Client, 7*time.Second) // moved
		set(alarm.Idle, 20*time.Second)  // later than the timer
		time.Sleep(6 * time.Second)      // the timer fires for nothing
		synctest.Wait()
		set(alarm.Idle, 2*time.Second) // 8 s, earlier than before
		time.Sleep(3 * time.Second)    // Client at 7 s, Idle at 8 s
		a.Clear(alarm.Head)
		set(alarm.Client, 3*time.Second) // 12 s, again
		time.Sleep(10 * time.Second)
		set(alarm.Head, time.Second)
		a.Stop()
		set(alarm.Idle, time.Second/2)
		time.Sleep(time.Minute)
		synctest.Wait()
		want := [3][]time.Duration{alarm.Idle: {8 * time.Second}, alarm.Client: {7 * time.Second, 12 * time.Second}}
		for s := range want {
			if !slices.Equal(l.at[s], want[s]) {
				t.Errorf("slot %d: notified after %v; want %v", s, l.at[s], want[s])
			}
		}
	})
}
