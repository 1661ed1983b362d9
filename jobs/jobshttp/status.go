package jobshttp

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"html/template"
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

// page is the response to a browser whose job is unfinished. It has no script: the browser
// requests the result every {{.After}} seconds, and receives this page until it is there.
var page = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="refresh" content="{{.After}}; url={{.ResultURL}}">
<title>In progress</title>
<h1>In progress</h1>
<p>This request takes longer. This page shows the result when it is there.</p>
<p>State: {{.State}}{{with .Progress}}{{if .Total}}, {{.Done}} of {{.Total}}{{end}}{{end}}</p>
<p><a href="{{.ResultURL}}">Result</a> · <a href="{{.StatusURL}}">Status</a></p>
</html>
`))

// writePage responds with 202 and a page about the job.
func writePage(w http.ResponseWriter, r *http.Request, d document, after string) {
	var body bytes.Buffer
	_ = page.Execute(&body, struct { // the fields are texts and numbers, and a Buffer takes all
		document
		After string
	}{d, after})
	w.Header().Set("Content-Security-Policy", "default-src 'none'")
	write(w, r, http.StatusAccepted, "text/html; charset=utf-8", body.Bytes())
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
