package buckets

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/histories"
)

// A naive model: a key that has spent tokens is never forgotten for a new key.
func TestH13_TableForgetsOnlyFullBuckets(t *testing.T) {
	for seed := range histories.Seeds(t, 6, 40) {
		rng := rand.New(rand.NewPCG(seed, 1))
		keys := 1 + rng.IntN(60)
		m := NewMeter(int64(time.Second), int64(1+rng.IntN(3)), 1+rng.IntN(5), 0)
		table := NewTable(keys, m)
		type one struct {
			debt int64
			seen time.Duration
		}
		model := map[string]one{}
		now := time.Duration(0)
		for range 3000 {
			now += time.Duration(rng.IntN(int(100 * time.Millisecond)))
			if rng.IntN(500) == 0 { // the missing tokens, rounded up, stay missing
				next := NewMeter(int64(time.Second), int64(1+rng.IntN(3)), 1+rng.IntN(5), 0)
				for key, b := range model {
					missing := max(0, b.debt-int64(now-b.seen)*m.perNano)
					model[key] = one{min(next.capacity, (missing*next.token+m.token-1)/m.token), now}
				}
				table.Update(keys, next, now)
				m = next
				sound(t, table)
			}
			key := fmt.Sprint(rng.IntN(3 * keys))
			want := model[key]
			debt, left, wait, ok := m.take(want.debt, now-want.seen)
			gotLeft, gotWait, gotOK, room := table.Claim(key, now, false)
			if room && (gotLeft != left || gotWait != wait || gotOK != ok) {
				t.Fatalf("seed %d: %d left, wait %v, %v; want %d, %v, %v", seed, gotLeft, gotWait, gotOK, left, wait, ok)
			}
			if room {
				model[key] = one{debt, now}
			} else if m.fullAt(want.debt, want.seen) > now {
				t.Fatalf("seed %d: a key that has spent tokens was forgotten", seed)
			}
			sound(t, table)
		}
	}
}
