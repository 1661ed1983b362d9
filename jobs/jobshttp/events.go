package jobshttp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/plain"
)

// wantsEvents reports whether r asks for an event stream.
func wantsEvents(r *http.Request) bool {
	for _, line := range r.Header["Accept"] {
		for part := range strings.SplitSeq(line, ",") {
			if t, params, err := mime.ParseMediaType(part); err == nil && t == "text/event-stream" && params["q"] != "0" {
				return true
			}
		}
	}
	return false
}

// reconnectIn is the delay after which a client reconnects when its stream has ended.
const reconnectIn = 2 * time.Second

// A news is one step of a Watch.
type news struct {
	status jobs.Status
	err    error
}

// events responds with an event stream (WHATWG HTML, section 9.2). It has an event
// for each change of the document, named status or progress; the last one is named result, failed or
// canceled. An event's ID is the revision, so a client that reconnects with
// Last-Event-ID gets only what it has not seen. A client that has seen the last event
// gets 204, which stops it from reconnecting.
func (s *Service) events(w http.ResponseWriter, r *http.Request, job found) {
	seen, _ := strconv.ParseUint(r.Header.Get("Last-Event-ID"), 10, 64) // on failure, nothing was seen
	h := w.Header()
	h.Set("Vary", "Accept")
	if job.status.State.Terminal() && job.status.Revision <= seen {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // otherwise nginx would buffer events
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	e := &stream{w: w, flush: http.NewResponseController(w), service: s, seen: seen}
	if e.send(fmt.Appendf(nil, "retry: %d\n\n", reconnectIn.Milliseconds())) {
		e.run(r.Context(), job)
	}
}

// A stream is one event stream.
type stream struct {
	w       http.ResponseWriter
	flush   *http.ResponseController
	service *Service
	seen    uint64 // the last revision that the client has received
	last    jobs.Status
}

// send writes to the client, and reports whether it succeeded.
func (e *stream) send(text []byte) bool {
	if _, err := e.w.Write(text); err != nil {
		return false
	}
	return e.flush.Flush() == nil
}

// run sends events until the job is over, the client has disconnected, or the Service
// drains.
func (e *stream) run(ctx context.Context, job found) {
	ctx, cancel := context.WithCancel(ctx)
	all, done := make(chan news), make(chan struct{})
	go func() { // ends with ctx
		defer close(done)
		for status, err := range job.handle.Watch(ctx) {
			select {
			case all <- news{status, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	defer func() { cancel(); <-done }()
	beat := time.NewTicker(e.service.o.Heartbeat)
	defer beat.Stop()
	for {
		select {
		case n := <-all:
			if n.err != nil || !e.tell(n.status) {
				return
			}
			beat.Reset(e.service.o.Heartbeat)
		case <-beat.C:
			if !e.send([]byte(": still here\n\n")) {
				return
			}
		case <-done:
			return
		case <-e.service.draining:
			return
		}
	}
}

// tell sends the event of a change, and reports whether more can follow.
func (e *stream) tell(j jobs.Status) bool {
	more := !j.State.Terminal()
	if j.Revision <= e.seen || e.last.Revision != 0 && e.service.alike(e.last, j) {
		e.last = j // nothing new to a client: a line of the job's log, perhaps
		return more
	}
	data, err := json.Marshal(e.service.document(j)) // contains no line break
	if err != nil {
		return false
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "id: %d\nevent: %s\ndata: %s\n\n", j.Revision, eventOf(e.last, j), plain.JSON(data))
	e.last, e.seen = j, j.Revision
	return e.send(b.Bytes()) && more
}

// eventOf returns the name of the event for the change from was to now.
func eventOf(was, now jobs.Status) string {
	switch now.State {
	case jobs.StateDone:
		return "result"
	case jobs.StateFailed, jobs.StateDead:
		return "failed"
	case jobs.StateCanceled:
		return "canceled"
	}
	if now.Progress != nil && was.State == now.State && was.Attempt == now.Attempt && !reflect.DeepEqual(was.Progress, now.Progress) {
		return "progress"
	}
	return "status"
}
