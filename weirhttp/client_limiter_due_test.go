package weirhttp

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/histories"
)

// checkDue checks the heap of s.
func (s *clientShard) checkDue(t *testing.T, m meter) {
	t.Helper()
	if len(s.due) != len(s.index) {
		t.Fatalf("%d in the heap, %d in the index", len(s.due), len(s.index))
	}
	for pos, i := range s.due {
		b := &s.buckets[i]
		if int(b.pos) != pos || s.index[b.key] != i {
			t.Fatalf("bucket %d is at %d in the heap, but its pos is %d", i, pos, b.pos)
		}
		if b.due < s.buckets[s.due[(pos-1)/2*min(pos, 1)]].due {
			t.Fatalf("bucket %d is due before the one above it", i)
		}
		if m.fullAt(b.debt, b.seen) < b.due {
			t.Fatalf("bucket %d is full before it is due", i)
		}
	}
}

// A naive model: a key that has spent tokens is never forgotten for a new key.
func TestH13_TableForgetsOnlyFullBuckets(t *testing.T) {
	for seed := range histories.Seeds(t, 6, 40) {
		rng := rand.New(rand.NewPCG(seed, 1))
		keys := 1 + rng.IntN(60)
		m := newMeter(ClientLimiterOptions{Rate: 1 + rng.IntN(3), Per: time.Second, Burst: 1 + rng.IntN(5)})
		table := newClientTable(keys, m)
		type bucket struct {
			debt int64
			seen time.Duration
		}
		model := map[string]bucket{}
		now := time.Duration(0)
		for range 3000 {
			now += time.Duration(rng.IntN(int(100 * time.Millisecond)))
			if rng.IntN(500) == 0 { // the missing tokens, rounded up, stay missing
				next := newMeter(ClientLimiterOptions{Rate: 1 + rng.IntN(3), Per: time.Second, Burst: 1 + rng.IntN(5)})
				for key, b := range model {
					missing := max(0, b.debt-int64(now-b.seen)*m.perNano)
					model[key] = bucket{min(next.capacity, (missing*next.token+m.token-1)/m.token), now}
				}
				table.update(keys, next, now)
				m = next
				table.shards[0].checkDue(t, m)
			}
			key := fmt.Sprint(rng.IntN(3 * keys))
			want := model[key]
			debt, left, wait, ok := m.take(want.debt, now-want.seen)
			gotLeft, gotWait, gotOK, room := table.claim(key, now, false)
			if room && (gotLeft != left || gotWait != wait || gotOK != ok) {
				t.Fatalf("seed %d: %d left, wait %v, %v; want %d, %v, %v", seed, gotLeft, gotWait, gotOK, left, wait, ok)
			}
			if room {
				model[key] = bucket{debt, now}
			} else if m.fullAt(want.debt, want.seen) > now {
				t.Fatalf("seed %d: a key that has spent tokens was forgotten", seed)
			}
			table.shards[0].check(t)
			table.shards[0].checkDue(t, m)
		}
	}
}

func TestH13_AFloodTakesBoundedMemory(t *testing.T) {
	for _, keys := range []int{10, 1000, 5000} {
		d, err := NewClientLimiter(ClientLimiterOptions{Rate: 1, Per: time.Hour, Keys: keys, Key: ByHeader("X-User", nil)})
		if err != nil {
			t.Fatal(err)
		}
		r := &http.Request{Header: http.Header{}}
		for i := range 30_000 {
			r.RemoteAddr = fmt.Sprintf("10.%d.%d.1:1", i>>8&0xff, i&0xff)
			r.Header.Set("X-User", fmt.Sprint(i))
			_ = d.Admit(r, nil)
		}
		for name, table := range map[string]*clientTable{"clients": d.table, "addresses": d.shares} {
			n, most := 0, max(keys, 1024)
			for i := range table.shards {
				s := &table.shards[i]
				s.check(t)
				s.checkDue(t, s.meter)
				n += len(s.buckets) - 1
			}
			if name == "clients" {
				most = keys
			}
			if n > most {
				t.Errorf("%d places for %s are used; want at most %d", n, name, most)
			}
		}
	}
}
