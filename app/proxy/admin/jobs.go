package admin

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/weir-go/weir/app/jobsctl"
	"github.com/weir-go/weir/jobs"
)

// handleJobs adds the endpoints for jobs. None of them shows an input or a result: those
// belong to the submitters.
func (s *server) handleJobs(mux *http.ServeMux) {
	handle := func(pattern string, h func(*http.Request, jobsctl.Source) (any, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { s.jobs(w, r, h) })
	}
	handle("GET /jobs", s.listJobs)
	handle("POST /jobs", s.onMany)
	handle("GET /jobs/queues", listQueues)
	handle("POST /jobs/queues/{queue}/pause", s.setPaused(true))
	handle("POST /jobs/queues/{queue}/resume", s.setPaused(false))
	handle("GET /jobs/{queue}/{id}", showJob)
	handle("POST /jobs/{queue}/{id}/retry", s.onJob(jobsctl.Retry))
	handle("POST /jobs/{queue}/{id}/cancel", s.onJob(jobsctl.Cancel))
	handle("DELETE /jobs/{queue}/{id}", s.onJob(jobsctl.Drop))
}

// jobs responds with the result of h.
func (s *server) jobs(w http.ResponseWriter, r *http.Request, h func(*http.Request, jobsctl.Source) (any, error)) {
	if s.o.Jobs == nil && s.o.JobsFail != nil {
		if failure := s.o.JobsFail(); failure != nil {
			write(w, http.StatusServiceUnavailable, failure)
			return
		}
	}
	if s.o.Jobs == nil {
		write(w, http.StatusNotFound, jobsctl.Failure{
			Error: "this proxy keeps no jobs: its configuration has no jobs section", Reason: jobsctl.NoJobs})
		return
	}
	v, err := h(r, jobsctl.FromStore(s.o.Jobs))
	if err != nil {
		status, failure := http.StatusBadRequest, jobsctl.Failure{Error: err.Error(), Reason: jobsctl.BadRequest}
		if _, ok := err.(badQuery); !ok {
			status, failure = jobsctl.Fail(err)
		}
		if s.o.HideKeys {
			failure.Error = withoutQueries(failure.Error)
		}
		write(w, status, failure)
		return
	}
	if s.o.HideKeys {
		v = hidden(v)
	}
	answer(w, v)
}

// A badQuery is the error of a query that cannot be read.
type badQuery struct{ error }

func (s *server) listJobs(r *http.Request, jobs jobsctl.Source) (any, error) {
	q, err := readQuery(r.URL.RawQuery)
	if err != nil {
		return nil, badQuery{err}
	}
	counted := q.Counts
	q.Counts = false
	page, err := jobs.List(r.Context(), q)
	if err == nil && counted {
		page.Counts, page.CountsAge, err = s.census.of(r.Context(), jobs, q.Queue)
	}
	return page, err
}

// readQuery parses which jobs are requested.
func readQuery(raw string) (q jobsctl.Query, err error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return q, err
	}
	for name, all := range values {
		value := all[len(all)-1]
		switch name {
		case "queue":
			q.Queue = value
		case "id":
			q.ID, err = jobsctl.ParseID(value)
		case "state":
			q.States, err = jobsctl.ParseStates(strings.Join(all, ","))
		case "limit":
			q.Limit, err = strconv.Atoi(value)
			if err != nil || q.Limit < 1 || q.Limit > jobsctl.MaxLimit {
				err = fmt.Errorf("%q: want a number from 1 to %d", value, jobsctl.MaxLimit)
			}
		case "counts":
			q.Counts, err = strconv.ParseBool(value)
		default:
			err = fmt.Errorf("there are queue, state, id, limit and counts")
		}
		if err != nil {
			return q, fmt.Errorf("%s: %w", name, err)
		}
	}
	return q, nil
}

func listQueues(r *http.Request, store jobsctl.Source) (any, error) {
	all, err := store.Queues(r.Context())
	if all == nil {
		all = []jobs.QueueStatus{} // not null in JSON
	}
	return jobsctl.QueuePage{Queues: all}, err
}

func showJob(r *http.Request, jobs jobsctl.Source) (any, error) {
	return jobs.Status(r.Context(), r.PathValue("queue"), r.PathValue("id"))
}

// onJob applies v to the job in the path.
func (s *server) onJob(v jobsctl.Verb) func(*http.Request, jobsctl.Source) (any, error) {
	return func(r *http.Request, jobs jobsctl.Source) (any, error) {
		queue, id := r.PathValue("queue"), r.PathValue("id")
		// A client that has sent this and left still wants it done.
		if err := jobs.Do(context.WithoutCancel(r.Context()), v, queue, id); err != nil {
			return nil, err
		}
		s.census.forget()
		s.o.Logger.Info("job "+v.Past(), "client", r.RemoteAddr, "queue", queue, "id", id)
		return jobsctl.Outcome{Queue: queue, ID: id, Did: v.Past()}, nil
	}
}

// setPaused pauses or resumes the queue in the path.
func (s *server) setPaused(paused bool) func(*http.Request, jobsctl.Source) (any, error) {
	return func(r *http.Request, jobs jobsctl.Source) (any, error) {
		queue := r.PathValue("queue")
		if err := jobs.SetPaused(context.WithoutCancel(r.Context()), queue, paused); err != nil {
			return nil, err
		}
		o := jobsctl.PauseOutcome(queue, paused)
		s.o.Logger.Info("queue "+o.Did, "client", r.RemoteAddr, "queue", queue)
		return o, nil
	}
}
