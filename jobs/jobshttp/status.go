package jobshttp

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"reflect"
	"time"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/weirhttp/accept"
)

// A document is the JSON representation of a job for clients.
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

// status serves the status of a job.
func (s *Service) status(w http.ResponseWriter, r *http.Request, job found) {
	status, err := s.await(w, r, job)
	if err != nil {
		refuse(w, r, err)
		return
	}
	h := w.Header()
	h.Set("ETag", s.etag(status))
	if !status.State.Terminal() {
		h.Set("Retry-After", seconds(worthAsking(status)))
	}
	if r.Header.Get("If-None-Match") == s.etag(status) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	writeJSON(w, r, http.StatusOK, "application/json", s.document(status))
}

// accepted responds with 202 to a client whose job is unfinished.
func (s *Service) accepted(w http.ResponseWriter, r *http.Request, status jobs.Status) {
	h := w.Header()
	h.Set("Location", s.o.Path+status.ID)
	h.Set("Retry-After", seconds(worthAsking(status)))
	d := s.document(status)
	if accept.Choose(r.Header["Accept"], "application/json", "text/html") == 1 {
		writePage(w, r, d, h.Get("Retry-After"))
		return
	}
	writeJSON(w, r, http.StatusAccepted, "application/json", d)
}

// page is the response to a browser whose job is unfinished: the seconds until it requests
// the result again, the address of the result, the job's state, and the address of its status. It has no script.
// html/template would keep every method of every type in the program.
const page = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="refresh" content="%[1]s; url=%[2]s">
<title>In progress</title>
<h1>In progress</h1>
<p>This request takes longer. This page shows the result when it is there.</p>
<p>State: %[3]s</p>
<p><a href="%[2]s">Result</a> · <a href="%[4]s">Status</a></p>
</html>
`

// writePage responds with 202 and a page about the job.
func writePage(w http.ResponseWriter, r *http.Request, d document, after string) {
	state := fmt.Sprint(d.State)
	if p := d.Progress; p != nil && p.Total != 0 {
		state += fmt.Sprintf(", %d of %d", p.Done, p.Total)
	}
	esc := html.EscapeString
	w.Header().Set("Content-Security-Policy", "default-src 'none'")
	write(w, r, http.StatusAccepted, "text/html; charset=utf-8",
		fmt.Appendf(nil, page, esc(after), esc(d.ResultURL), esc(state), esc(d.StatusURL)))
}

// etag returns the ETag of a job's status. It is that of the document: the revision also
// grows with the lines of the job's log, which clients do not get.
func (s *Service) etag(j jobs.Status) string {
	data, _ := json.Marshal(s.document(j)) // the fields are texts, numbers and times
	sum := sha256.Sum256(data)
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
}

// alike reports whether the documents of a and b are the same.
func (s *Service) alike(a, b jobs.Status) bool {
	return reflect.DeepEqual(s.document(a), s.document(b))
}

// worthAsking returns when an unfinished job may have changed: the longer a job has
// taken, the less often clients should poll it.
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
