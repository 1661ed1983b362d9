package outbox_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/outbox"
)

// Q1 and Q6: one batch has inputs of several versions, rows with the same ID, and rows
// that were tried before, with and without a job. Each becomes one job with its version,
// is known, or is parked.
func TestQ1_ABatchOfAllKinds(t *testing.T) {
	r := newRig(t)
	q := r.target("q", jobs.QueueOptions{Version: 9})
	if _, err := q.Submit(t.Context(), "in", jobs.SubmitOptions{Key: "known"}); err != nil {
		t.Fatal(err)
	}
	want := []string{"known", "tried", "twice"}
	for n := range 12 {
		id := fmt.Sprint("row ", n)
		r.enqueue(r.queue("q", outbox.QueueOptions{NotifyEvery: -1, Version: n % 3}), "in", outbox.EnqueueOptions{ID: id})
		want = append(want, id)
	}
	slices.Sort(want)
	for _, id := range []string{"tried", "known", "twice", "twice"} {
		r.enqueue(r.jobs, "in", outbox.EnqueueOptions{ID: id})
	}
	r.exec("UPDATE weir_outbox SET tried_at = now() WHERE id IN ('tried', 'known')")
	r.enqueue(r.jobs, "other", outbox.EnqueueOptions{ID: "twice"})
	relay := r.relay(outbox.RelayOptions{})
	if row := r.parked(1)[0]; row.ID != "twice" || row.Reason != outbox.ReasonConflict {
		t.Errorf("Parked has %+v; want the row with the same ID and another input", row)
	}
	r.empty()
	if got := r.ids("q"); !slices.Equal(got, want) {
		t.Errorf("jobs %q; want %q", got, want)
	}
	r.eventually("the counts", func() bool { s := relay.Stats(); return s.Submitted == 14 && s.Known == 2 })

	var mu sync.Mutex
	versions := map[int]int{} // guarded by mu
	w := q.WithCodecs(jobs.Codec[string]{
		Encode: func(s string) ([]byte, error) { return []byte(s), nil },
		Decode: func(_ []byte, version int) (string, error) {
			mu.Lock()
			defer mu.Unlock()
			versions[version]++
			return "", nil
		},
	}, jobs.JSON[string]())
	r.work(w, new(ledger).handle)
	r.eventually("the versions", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return versions[0] == 6 && versions[1] == 4 && versions[2] == 4 && versions[9] == 1
	})
}
