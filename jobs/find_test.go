package jobs_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/jobs"
)

// A read that finds its job does not wait for the pause, whichever queue the job is
// in. In a cluster, the read reports a missing job after one pause, not after one per
// queue.
func TestH23_AReadOfAJobWaitsForNoPause(t *testing.T) {
	away := errors.New("away")
	for _, tt := range []struct {
		name    string
		cluster bool
		from    int    // the first query that finds the job, from 1; 0: none does
		err     error  // of each query of the last queue
		asked   string // queues
		pauses  int
	}{
		{name: "in the first", cluster: true, from: 1, asked: "a"},
		{name: "in the last", cluster: true, from: 3, asked: "a b c"},
		{name: "in none", cluster: true, asked: "a b c a b c", pauses: 1},
		{name: "the leader has just changed", cluster: true, from: 5, asked: "a b c a b", pauses: 1},
		{name: "one server, in the last", from: 3, asked: "a b c"},
		{name: "one server, in none", asked: "a b c"},
		{name: "no answer", cluster: true, err: away, asked: "a b c"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked []string
				ask := func(queue string) (*string, error) {
					asked = append(asked, queue)
					if len(asked) == tt.from {
						return &queue, nil
					}
					if tt.err != nil && queue == "c" {
						return nil, tt.err
					}
					return nil, nil
				}
				began := time.Now()
				job, queue, err := jobs.FirstOf(t.Context(), []string{"a", "b", "c"}, tt.cluster, ask)
				if got := strings.Join(asked, " "); got != tt.asked {
					t.Errorf("queried %s; want %s", got, tt.asked)
				}
				if got, want := time.Since(began), time.Duration(tt.pauses)*jobs.LeaderPause; got != want {
					t.Errorf("FirstOf took %v; want %v", got, want)
				}
				switch {
				case !errors.Is(err, tt.err):
					t.Errorf("FirstOf = %v; want %v", err, tt.err)
				case (job != nil) != (tt.from > 0):
					t.Errorf("FirstOf = %v; want a job: %v", job, tt.from > 0)
				case job != nil && (*job != queue || queue != asked[len(asked)-1]):
					t.Errorf("FirstOf = the job of %s in %s; want %s", *job, queue, asked[len(asked)-1])
				}
			})
		})
	}
}

// A client that disconnects does not wait for the pause.
func TestH23_AReadOfAJobEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), jobs.LeaderPause/2)
		defer cancel()
		nothing := func(string) (*string, error) { return nil, nil }
		if _, _, err := jobs.FirstOf(ctx, []string{"a"}, true, nothing); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("FirstOf = %v; want %v", err, context.DeadlineExceeded)
		}
	})
}
