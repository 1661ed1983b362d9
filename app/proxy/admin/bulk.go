package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/weir-go/weir/app/jobsctl"
	"github.com/weir-go/weir/jobs"
)

// The bounds of a bulk order.
const (
	// maxBulk is the maximum number of jobs. Larger backlogs need several orders, or weir
	// jobs, which reports its progress.
	maxBulk = 10_000
	// bulkTimeout bounds the work, which continues if the client leaves.
	bulkTimeout = 2 * time.Minute
	// bulkErrors is how many different errors are reported.
	bulkErrors = 5
)

// A bulkOrder is the body of POST /jobs: the named Jobs, or all jobs in States, whose number
// must be Count, as the operator has confirmed it.
type bulkOrder struct {
	Verb   jobsctl.Verb   `json:"verb"`
	Queue  string         `json:"queue"`
	States []jobs.State   `json:"states"`
	Count  int            `json:"count"`
	Jobs   []jobReference `json:"jobs"`
}

type jobReference struct {
	Queue string `json:"queue"`
	ID    string `json:"id"`
}

// A bulkResult is the response.
type bulkResult struct {
	Did    string   `json:"did"`              // Verb.Past
	Done   int      `json:"done"`             // jobs
	Failed int      `json:"failed"`           // jobs
	Errors []string `json:"errors,omitempty"` // the first different ones
}

// A countError is a conflict: it rejects an order whose count is not, or no longer, the number of jobs.
type countError struct{ confirmed, found int }

func (e *countError) Error() string {
	return fmt.Sprintf("%d jobs were confirmed, and there are %d now: nothing was done", e.confirmed, e.found)
}

// Unwrap returns the error of package jobs for a conflict.
func (e *countError) Unwrap() error { return jobs.ErrConflict }

func (o bulkOrder) check() error {
	switch {
	case o.Verb != jobsctl.Retry && o.Verb != jobsctl.Cancel:
		return fmt.Errorf("verb is %q; want retry or cancel", o.Verb)
	case (len(o.Jobs) > 0) == (len(o.States) > 0):
		return errors.New(`want one of "jobs" and "states"`)
	case len(o.Jobs) > 0:
		return nil
	case o.Count < 1 || o.Count > maxBulk:
		return fmt.Errorf("count is %d; want the number of jobs, from 1 to %d", o.Count, maxBulk)
	}
	for _, s := range o.States {
		if !slices.Contains(o.Verb.States(), s) {
			return fmt.Errorf("a job that is %s cannot be %s; want %s", s, o.Verb.Past(), jobsctl.Words(o.Verb.States(), "or"))
		}
	}
	return nil
}

// onMany applies a verb to many jobs.
func (s *server) onMany(r *http.Request, store jobsctl.Source) (any, error) {
	var o bulkOrder
	d := json.NewDecoder(io.LimitReader(r.Body, maxOrder))
	d.DisallowUnknownFields()
	err := d.Decode(&o)
	if err == nil {
		err = o.check()
	}
	if err != nil {
		return nil, badQuery{fmt.Errorf("the body: %w", err)}
	}
	// A client that has sent this and left still wants it done.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), bulkTimeout)
	defer cancel()
	all, err := o.find(ctx, store)
	if err != nil {
		return nil, err
	}
	outcomes, _ := jobsctl.Act(ctx, store, o.Verb, all, nil) // its errors are in the outcomes
	out := bulkResult{Did: o.Verb.Past()}
	for _, one := range outcomes {
		if one.Did != "" {
			out.Done++
			continue
		}
		out.Failed++
		if len(out.Errors) < bulkErrors && !slices.Contains(out.Errors, one.Error) {
			out.Errors = append(out.Errors, one.Error)
		}
	}
	s.census.forget()
	s.o.Logger.Info("jobs "+o.Verb.Past(), "client", r.RemoteAddr, "queue", o.Queue, "states", jobsctl.Words(o.States, "and"), "done", out.Done, "failed", out.Failed)
	return out, nil
}

// find returns the jobs of o.
func (o bulkOrder) find(ctx context.Context, store jobsctl.Source) ([]jobs.Status, error) {
	var all []jobs.Status
	for _, j := range o.Jobs {
		all = append(all, jobs.Status{Queue: j.Queue, ID: j.ID})
	}
	if len(all) > 0 {
		return all, nil
	}
	page, err := store.List(ctx, jobsctl.Query{Queue: o.Queue, States: o.States, Limit: maxBulk})
	if err != nil {
		return nil, err
	}
	if page.More || len(page.Jobs) != o.Count {
		return nil, &countError{o.Count, len(page.Jobs)}
	}
	return page.Jobs, nil
}
