package jobshttp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/jobshttp"
)

// An event is one event of a stream; an event without a name is a comment or a
// setting.
type event struct {
	id   uint64
	name string
	job  job
}

// stream opens an event stream. The channel is closed when the stream ends.
func (x *site) stream(path string, fields ...string) (*http.Response, <-chan event) {
	x.t.Helper()
	ctx, cancel := context.WithTimeout(x.t.Context(), patience)
	x.t.Cleanup(cancel)
	resp, err := http.DefaultTransport.RoundTrip(x.request("GET", path, "", fields...).WithContext(ctx))
	if err != nil {
		x.t.Fatal(err)
	}
	events := make(chan event, 100)
	go func() { // ends with the stream
		defer close(events)
		defer resp.Body.Close()
		var e event
		for s := bufio.NewScanner(resp.Body); s.Scan(); {
			switch name, value, _ := strings.Cut(s.Text(), ": "); name {
			case "id":
				e.id, _ = strconv.ParseUint(value, 10, 64)
			case "event":
				e.name = value
			case "data":
				_ = json.Unmarshal([]byte(value), &e.job) // checked by the reader
			case "":
				if strings.HasPrefix(s.Text(), ":") {
					e.name = "comment"
				} else {
					events <- e
					e = event{}
				}
			}
		}
	}()
	return resp, events
}

func names(events <-chan event) (all []string) {
	for e := range events {
		all = append(all, e.name)
	}
	return all
}

func TestH23_EventsTellEachChange(t *testing.T) {
	x := newSite(t, setup{})
	id := x.async("POST", "/slow", "").job.ID
	x.arrives()
	resp, events := x.stream("/.weir/jobs/"+id, "Accept: text/html, text/event-stream;q=0.5")
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" || resp.Header.Get("Cache-Control") != "no-store, private" {
		t.Errorf("the stream responds %d %v", resp.StatusCode, resp.Header)
	}
	if e := <-events; e.name != "" {
		t.Errorf("first event = %+v; want retry", e)
	}
	first := <-events
	if first.name != "status" || first.id == 0 || first.job.ID != id || first.job.State != "running" {
		t.Errorf("first status event = %+v; want the current status", first)
	}
	x.may <- struct{}{}
	last := <-events
	if last.name != "result" || last.id <= first.id || last.job.State != "done" || last.job.ResultURL == "" {
		t.Errorf("next event = %+v; want the result", last)
	}
	if e, ok := <-events; ok {
		t.Errorf("event after the end: %+v", e)
	}
}

func TestH23_EventsResume(t *testing.T) {
	x := newSite(t, setup{})
	id := x.async("POST", "/slow", "").job.ID
	x.arrives()
	_, events := x.stream("/.weir/jobs/" + id + "/events")
	<-events
	seen := (<-events).id
	_, events = x.stream("/.weir/jobs/"+id+"/events", "Last-Event-ID: "+strconv.FormatUint(seen, 10))
	<-events // retry
	select {
	case e := <-events:
		t.Errorf("an event that was already seen came again: %+v", e)
	case <-time.After(300 * time.Millisecond):
	}
	x.may <- struct{}{}
	last := <-events
	if last.name != "result" {
		t.Errorf("next event = %+v; want the result", last)
	}
	_, events = x.stream("/.weir/jobs/"+id+"/events", "Last-Event-ID: "+strconv.FormatUint(seen, 10))
	if got := names(events); !slices.Equal(got, []string{"", "result"}) {
		t.Errorf("a client that missed the end gets %q; want the result at once", got)
	}
	a := x.is("a client that has seen the end", x.do("GET", "/.weir/jobs/"+id+"/events", "", "Last-Event-ID: "+strconv.FormatUint(last.id, 10)), 204)
	x.has("a client that has seen the end", a, "Cache-Control", "no-store, private")
}

func TestH23_EventsOfOtherEnds(t *testing.T) {
	x := newSite(t, setup{})
	id := x.async("POST", "/slow", "").job.ID
	x.arrives()
	x.do("DELETE", "/.weir/jobs/"+id, "")
	_, events := x.stream("/.weir/jobs/" + id + "/events")
	if got := names(events); !slices.Equal(got, []string{"", "canceled"}) {
		t.Errorf("a canceled job's events are %q", got)
	}
	x.answers(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) })
	id = x.async("POST", "/quick", "").job.ID
	x.over(id)
	_, events = x.stream("/.weir/jobs/" + id + "/events")
	if got := names(events); !slices.Equal(got, []string{"", "failed"}) {
		t.Errorf("a dead job's events are %q", got)
	}
}

// A step is what the handler of stepping does next.
type step func(*jobs.Job[jobshttp.Request])

// stepping starts a worker whose handler does the steps, until there are no more.
func (x *site) stepping() (steps chan step) {
	x.t.Helper()
	q, err := jobs.NewQueue[jobshttp.Request, jobshttp.Response](x.t.Context(), x.store, "all-once", jobs.QueueOptions{})
	if err != nil {
		x.t.Fatal(err)
	}
	steps = make(chan step)
	w, err := q.WithCodecs(
		jobs.Codec[jobshttp.Request]{Decode: func([]byte, int) (r jobshttp.Request, err error) { return r, nil }},
		jobs.JSON[jobshttp.Response](),
	).Work(func(ctx context.Context, j *jobs.Job[jobshttp.Request]) (out jobshttp.Response, err error) {
		for {
			select {
			case do, more := <-steps:
				if !more {
					return out, nil
				}
				do(j)
			case <-ctx.Done():
				return out, ctx.Err()
			}
		}
	}, jobs.WorkerOptions{})
	if err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.WithoutCancel(x.t.Context()))
		cancel()
		_ = w.Close(ctx) // no job is left
	})
	return steps
}

// next returns the next event of a job that has started, which should have that name.
func (x *site) next(events <-chan event, name string) event {
	x.t.Helper()
	for e := range events {
		if e.name == "status" && e.job.State == "queued" || e.name == "" {
			continue // the worker has not started the job
		}
		if e.name != name {
			x.t.Errorf("event = %+v; want %s", e, name)
		}
		return e
	}
	x.t.Fatalf("the stream ended; want %s", name)
	return event{}
}

func TestH23_EventsTellProgress(t *testing.T) {
	x := newSite(t, setup{idle: true})
	steps := x.stepping() // the route's workers report no progress
	_, events := x.stream(x.async("POST", "/slow", "").job.StatusURL + "/events")
	if e := x.next(events, "status"); e.job.State != "running" {
		t.Errorf("first event = %+v; want running", e)
	}
	for n := int64(1); n <= 2; n++ {
		steps <- func(j *jobs.Job[jobshttp.Request]) { j.Progress(jobs.Progress{Done: n, Total: 3}) }
		if e := x.next(events, "progress"); e.job.Progress.Done != n || e.job.Progress.Total != 3 {
			t.Errorf("progress of the event = %+v; want %d of 3", e.job.Progress, n)
		}
	}
	close(steps)
	x.next(events, "result")
}

// J29: clients do not get the log of a job. So a line in it is no event for them, ends no
// wait, and does not change the ETag.
func TestJ29_LogsAreNoNewsToClients(t *testing.T) {
	x := newSite(t, setup{idle: true, route: jobshttp.RouteOptions{MaxWait: 25 * time.Second}})
	steps := x.stepping()
	id := x.async("POST", "/slow", "").job.ID
	_, events := x.stream("/.weir/jobs/" + id + "/events")
	x.next(events, "status")
	tag := x.do("GET", "/.weir/jobs/"+id, "").header.Get("ETag")
	got := make(chan reply, 1)
	go func() { got <- x.do("GET", "/.weir/jobs/"+id, "", "If-None-Match: "+tag, "Prefer: wait=25") }()
	<-time.After(100 * time.Millisecond) // it waits
	for n := 1; n <= 2; n++ {
		steps <- func(j *jobs.Job[jobshttp.Request]) { j.Log("a line") }
		for end := time.Now().Add(patience); ; <-time.After(10 * time.Millisecond) {
			if s, err := x.store.Status(t.Context(), "all-once", id); err == nil && s.Logged == n {
				break
			} else if time.Now().After(end) {
				t.Fatalf("Status = %+v, %v; want %d lines", s, err, n)
			}
		}
		x.is("unchanged", x.do("GET", "/.weir/jobs/"+id, "", "If-None-Match: "+tag), 304)
	}
	<-time.After(100 * time.Millisecond) // an event would be there
	select {
	case a := <-got:
		t.Errorf("a client that waits for a change got %d %s", a.status, a.body)
	case e := <-events:
		t.Errorf("event = %+v; want none", e)
	default:
	}
	steps <- func(j *jobs.Job[jobshttp.Request]) { j.Progress(jobs.Progress{Done: 1, Total: 3}) }
	if e := x.next(events, "progress"); e.job.Progress.Done != 1 {
		t.Errorf("progress of the event = %+v; want 1 of 3", e.job.Progress)
	}
	if a := <-got; a.status != 200 || a.job.Progress.Done != 1 || a.header.Get("ETag") == tag {
		t.Errorf("a client that waits for a change got %d %s; want the progress", a.status, a.body)
	}
	close(steps)
	x.next(events, "result")
}

func TestH23_EventsBeat(t *testing.T) {
	x := newSite(t, setup{options: jobshttp.Options{Heartbeat: 20 * time.Millisecond}})
	id := x.async("POST", "/slow", "").job.ID
	x.arrives()
	_, events := x.stream("/.weir/jobs/" + id + "/events")
	beats := 0
	for e := range events {
		if e.name == "comment" {
			if beats++; beats == 3 {
				x.service.Drain(context.Background())
			}
		}
	}
	if beats < 3 {
		t.Errorf("%d heartbeats; want 3, and an end after Leave", beats)
	}
	x.may <- struct{}{}
}
