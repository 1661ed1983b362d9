package jobshttp

import (
	"net/http"
	"strconv"
	"time"

	"github.com/weir-go/weir/jobs"
)

// A document is what clients see of a job.
type document struct {
	ID         string          `json:"id"`
	State      jobs.State      `json:"state"`
	Durability jobs.Durability `json:"durability"`
	Attempt    int             `json:"attempt,omitempty"`
	Progress   *jobs.Progress  `json:"progress,omitempty"`
	Submitted  time.Time       `json:"submitted,omitzero"`
	Started    time.Time       `json:"started,omitzero"`
	Finished   time.Time       `json:"finished,omitzero"`
	NotBefore  time.Time       `json:"not_before,omitzero"`
	Error      string          `json:"error,omitempty"`
	StatusURL  string          `json:"status_url"`
	ResultURL  string          `json:"result_url"`
	EventsURL  string          `json:"events_url"`
}

func (s *Service) document(j jobs.Status) document {
	at := s.o.Path + j.ID
	return document{
		ID: j.ID, State: j.State, Durability: j.Durability, Attempt: j.Attempt, Progress: j.Progress,
		Submitted: j.Submitted, Started: j.Started, Finished: j.Finished, NotBefore: j.NotBefore, Error: j.Error,
		StatusURL: at, ResultURL: at + "/result", EventsURL: at + "/events",
	}
}

// status answers with how the job stands.
func (s *Service) status(w http.ResponseWriter, r *http.Request, job found) {
	status, err := s.await(w, r, job)
	if err != nil {
		refuse(w, r, err)
		return
	}
	h := w.Header()
	h.Set("ETag", etag(status))
	if !status.State.Terminal() {
		h.Set("Retry-After", seconds(worthAsking(status)))
	}
	if r.Header.Get("If-None-Match") == etag(status) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	writeJSON(w, r, http.StatusOK, "application/json", s.document(status))
}

// accepted answers with 202: the job is there, and not over.
func (s *Service) accepted(w http.ResponseWriter, r *http.Request, status jobs.Status) {
	h := w.Header()
	h.Set("Location", s.o.Path+status.ID)
	h.Set("Retry-After", seconds(worthAsking(status)))
	writeJSON(w, r, http.StatusAccepted, "application/json", s.document(status))
}

// etag names how a job stands.
func etag(j jobs.Status) string { return `"` + strconv.FormatUint(j.Revision, 10) + `"` }

// worthAsking is when there may be news of a job that is not over: a job that
// has taken long is read less often.
func worthAsking(j jobs.Status) time.Duration {
	const least, most = time.Second, 30 * time.Second
	if d := time.Until(j.NotBefore); j.State != jobs.StateRunning && d > least {
		return min(d, 10*most)
	}
	if j.Submitted.IsZero() {
		return least
	}
	return min(max(time.Since(j.Submitted)/4, least), most)
}
