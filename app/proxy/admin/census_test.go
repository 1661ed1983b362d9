package admin

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/app/jobsctl"
	"github.com/weir-go/weir/jobs"
)

// slowJobs takes a second for a count.
type slowJobs struct {
	jobsctl.Source
	counts int
	fail   error
}

func (s *slowJobs) List(context.Context, jobsctl.Query) (jobsctl.Page, error) {
	time.Sleep(time.Second)
	s.counts++
	return jobsctl.Page{Counts: map[string]int{"queued": s.counts}}, s.fail
}

// Counts are shared by callers at the same time, and reused for nine times as long as they
// took; then they are taken anew, and after a change at once. Errors are not reused.
func TestCountsOfJobsAreReused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c census
		source := &slowJobs{}
		want := func(queue string, n int, old time.Duration) {
			t.Helper()
			got, age, err := c.of(t.Context(), source, queue)
			if got["queued"] != n || age != old || err != nil {
				t.Errorf("counts %v, %v old, %v; want number %d, %v old", got, age, err, n, old)
			}
		}
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() { want("q", 1, 0) })
		}
		all.Wait()
		time.Sleep(9 * time.Second)
		want("q", 1, 9*time.Second)
		time.Sleep(time.Nanosecond)
		want("q", 2, 0)
		want("other", 3, 0)
		want("q", 2, time.Second)
		c.forget()
		want("q", 4, 0)

		source.fail = errors.New("no")
		time.Sleep(time.Minute)
		if _, _, err := c.of(t.Context(), source, "q"); err != source.fail {
			t.Errorf("of = %v; want %v", err, source.fail)
		}
		source.fail = nil
		want("q", 6, 0)

		// A caller that leaves does not wait for another's count.
		time.Sleep(time.Minute)
		all.Go(func() { want("q", 7, 0) })
		time.Sleep(100 * time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		begin := time.Now()
		if _, _, err := c.of(ctx, source, "q"); err != context.DeadlineExceeded || time.Since(begin) != 100*time.Millisecond {
			t.Errorf("of = %v after %v; want the end of its context at once", err, time.Since(begin))
		}
		all.Wait()
	})
}

// C4: a page without keys has everything else of it, such as the age of its counts.
func TestC4_APageWithoutKeysKeepsItsCounts(t *testing.T) {
	page := jobsctl.Page{
		Jobs: []jobs.Status{{ID: "1", Key: "k"}}, More: true, Counts: map[string]int{"queued": 7}, CountsAge: 5 * time.Second,
	}
	got := hidden(page)
	page.Jobs = []jobs.Status{{ID: "1"}}
	if !reflect.DeepEqual(got, page) {
		t.Errorf("hidden = %+v; want %+v", got, page)
	}
}
