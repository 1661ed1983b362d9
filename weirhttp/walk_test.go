package weirhttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirhttp"
)

var updateWalk = flag.Bool("update-walk", false, "write testdata/walk.txt")

// A walk is a way of a request through the Handler, and a step at which something goes
// wrong on it.
type walk struct {
	way, step string
	request   func(ctx context.Context) *http.Request
	origin    http.HandlerFunc
	limiter   limit.Limiter // instead of a Concurrency of 1; nil: that
	queued    bool          // the permit is in use when the request comes
	poor      string        // "budget" or "client": has no unit left
	leaves    time.Duration // of the client; 0: never
}

// Each way of a request ends with the same counters, receipts, events and permits, at
// whatever step it breaks. The record was made before the code was taken apart, and
// changes only with a decision.
func TestH14H34_EveryWayGivesBackWhatItHolds(t *testing.T) {
	var record strings.Builder
	for _, w := range walks() {
		var got string
		synctest.Test(t, func(t *testing.T) { got = w.run(t) })
		fmt.Fprintf(&record, "== %s, %s\n%s", w.way, w.step, got)
	}
	path := filepath.Join("testdata", "walk.txt")
	if *updateWalk {
		if err := os.WriteFile(path, []byte(record.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	was, is := strings.Split(string(want), "== "), strings.Split(record.String(), "== ")
	if len(was) != len(is) {
		t.Fatalf("%d ways; %s has %d", len(is), path, len(was))
	}
	for i := range was {
		if was[i] != is[i] {
			t.Errorf("it was:\n%s\nand is:\n%s", was[i], is[i])
		}
	}
}

func walks() []walk {
	get := func(fields ...string) func(ctx context.Context) *http.Request {
		return func(ctx context.Context) *http.Request {
			r, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://shop.example/a", nil)
			for i := 0; i < len(fields); i += 2 {
				r.Header.Set(fields[i], fields[i+1])
			}
			return r
		}
	}
	ways := []struct {
		name    string
		request func(ctx context.Context) *http.Request
	}{
		{"flight", get()},
		{"alone", get("Cookie", "session=1")},
		{"bypass", func(ctx context.Context) *http.Request {
			r, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://shop.example/a", strings.NewReader("body"))
			return r
		}},
		{"stream", get("Accept", "text/event-stream")},
	}
	body := func(w http.ResponseWriter, status int) {
		w.Header().Set("Cache-Control", "max-age=60")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "half")
		w.(http.Flusher).Flush()
	}
	const second = time.Second
	steps := []walk{
		{step: "nothing breaks", origin: func(w http.ResponseWriter, _ *http.Request) { body(w, 200) }},
		{step: "an event stream", origin: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			body(w, 200)
			time.Sleep(second)
		}},
		{step: "a time-out of the origin's connection", origin: func(w http.ResponseWriter, _ *http.Request) {
			weirhttp.SinkOf(w).Fail(os.ErrDeadlineExceeded)
		}},
		{step: "a 503", origin: func(w http.ResponseWriter, _ *http.Request) { body(w, 503) }},
		{step: "panic before the head", origin: func(http.ResponseWriter, *http.Request) { panic("secret") }},
		{step: "Goexit before the head", origin: func(http.ResponseWriter, *http.Request) { runtime.Goexit() }},
		{step: "abort before the head", origin: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
		{step: "unreachable", origin: func(w http.ResponseWriter, _ *http.Request) {
			weirhttp.SinkOf(w).Fail(&weirhttp.ForwardError{Err: errors.New("no route"), Unreachable: true})
		}},
		{step: "a broken connection", origin: func(w http.ResponseWriter, _ *http.Request) {
			weirhttp.SinkOf(w).Fail(errors.New("reset"))
		}},
		{step: "panic in the body", origin: func(w http.ResponseWriter, _ *http.Request) { body(w, 200); panic("secret") }},
		{step: "Goexit in the body", origin: func(w http.ResponseWriter, _ *http.Request) { body(w, 200); runtime.Goexit() }},
		{step: "abort in the body", origin: func(w http.ResponseWriter, _ *http.Request) { body(w, 200); panic(http.ErrAbortHandler) }},
		{step: "no head in time", origin: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }},
		{step: "no progress in the body", origin: func(w http.ResponseWriter, r *http.Request) { body(w, 200); <-r.Context().Done() }},
		{step: "the client leaves before the head", leaves: second / 2, origin: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }},
		{step: "the client leaves in the body", leaves: second / 2, origin: func(w http.ResponseWriter, r *http.Request) { body(w, 200); <-r.Context().Done() }},
		{step: "the client leaves, and the handler does not notice", leaves: second / 2, origin: func(w http.ResponseWriter, _ *http.Request) { time.Sleep(second); body(w, 200) }},
		{step: "the client leaves the queue", leaves: second / 2, queued: true},
		{step: "the queue is slow", queued: true},
		{step: "the limiter panics", limiter: broken{}},
		{step: "the budget refuses", poor: "budget"},
		{step: "the client's budget refuses", poor: "client"},
	}
	var all []walk
	for _, way := range ways {
		for _, s := range steps {
			if s.limiter != nil && way.name == "flight" {
				continue // a fault on the goroutine of a flight ends the process
			}
			s.way, s.request = way.name, way.request
			all = append(all, s)
		}
	}
	return all
}

// broken is a Limiter with a fault.
type broken struct{}

func (broken) Acquire(context.Context) (limit.Permit, error) { panic("the limiter is broken") }

func (w walk) run(t *testing.T) string {
	permits, err := limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 1, MaxWait: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	streams, err := limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 1, Queue: -1})
	if err != nil {
		t.Fatal(err)
	}
	const all, own = 100, 10
	budget, err := limit.NewRateLimiter(limit.RateOptions{PerSecond: 1.0 / (1 << 20), Burst: all})
	if err != nil {
		t.Fatal(err)
	}
	client, err := weirhttp.NewClientBudget(weirhttp.ClientBudgetOptions{
		Units: own, Per: 24 * time.Hour, Key: func(*http.Request) string { return "1" },
	})
	if err != nil {
		t.Fatal(err)
	}
	o := weirhttp.Options{
		Gateway: true, Budget: budget, ClientBudget: client,
		Cost: weirhttp.Cost{Units: 3, Header: "X-Cost"}, HeadTimeout: 4 * time.Second, IdleTimeout: 3 * time.Second, StreamIdleTimeout: 3 * time.Second,
	}
	watch := &walkRecord{}
	o.Limiter, o.Streams = outcomes{permits, "permit", watch}, outcomes{streams, "stream", watch}
	if w.limiter != nil {
		o.Limiter, o.Streams = w.limiter, w.limiter
	}
	o.Observer = watch
	s := open(t, h1, o, func(rw http.ResponseWriter, r *http.Request) {
		time.Sleep(10 * time.Millisecond)
		switch {
		case r.URL.Path == "/spend":
			rw.Header().Set("X-Cost", strconv.Itoa(own))
		case w.origin != nil:
			w.origin(rw, r)
		}
	})
	inner := s.handler
	s.client = dialled(t, h1, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		defer func() {
			if v := recover(); v == "the limiter is broken" {
				panic(http.ErrAbortHandler) // which the server does not log
			} else if v != nil {
				panic(v)
			}
		}()
		inner.ServeHTTP(&receiptWriter{ResponseWriter: rw, to: watch}, r)
	}))
	switch w.poor {
	case "budget":
		if _, err := limit.AcquireN(t.Context(), budget, all); err != nil {
			t.Fatal(err)
		}
	case "client":
		s.get("/spend")
		watch.lines = nil
	}
	var held, heldStream limit.Permit
	if w.queued {
		if held, err = permits.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		if heldStream, err = streams.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if w.leaves > 0 {
		time.AfterFunc(w.leaves, cancel)
	}
	time.AfterFunc(300*time.Millisecond, func() {
		st := s.handler.Stats()
		watch.add("during: %d permits, %d streams; %d in flight, %d streams", permits.Stats().InUse, streams.Stats().InUse, st.InFlight, st.Streams)
	})
	before := s.handler.Stats()
	r := s.do(w.request(ctx))
	synctest.Wait()
	held.Release(limit.Unused)
	heldStream.Release(limit.Unused)
	time.Sleep(10 * time.Second) // all that is going to happen has
	synctest.Wait()

	var out strings.Builder
	if r.err != nil {
		r = reply{err: r.err} // what had arrived before is up to net/http
	}
	fmt.Fprintf(&out, "client: %d %q, broken %t; %s\n", r.status, r.body, r.err != nil, strings.Join(r.header.Values("Cache-Status"), ", "))
	slices.Sort(watch.lines) // two goroutines write them
	for _, line := range watch.lines {
		fmt.Fprintln(&out, line)
	}
	for _, line := range changed(t, before, s.handler.Stats()) {
		fmt.Fprintln(&out, line)
	}
	rates := budget.Stats()
	fmt.Fprintf(&out, "held: %d permits, %d streams; %d of %d units left\n", permits.Stats().InUse, streams.Stats().InUse, int(rates.Tokens), all)
	return out.String()
}

// changed returns the counters that differ.
func changed(t *testing.T, a, b weirhttp.Stats) []string {
	flat := func(s weirhttp.Stats) map[string]string {
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var tree map[string]any
		if err := json.Unmarshal(text, &tree); err != nil {
			t.Fatal(err)
		}
		all := map[string]string{}
		flatten(all, "", tree)
		return all
	}
	was, is := flat(a), flat(b)
	var lines []string
	for name, v := range is {
		if v != was[name] {
			lines = append(lines, "stats: "+name+" "+v)
		}
	}
	slices.Sort(lines)
	return lines
}

func flatten(all map[string]string, prefix string, tree map[string]any) {
	for name, v := range tree {
		if sub, ok := v.(map[string]any); ok {
			flatten(all, prefix+name+".", sub)
			continue
		}
		all[prefix+name] = fmt.Sprint(v)
	}
}

// A walkRecord writes down what an Observer and a ReceiptWriter receive.
type walkRecord struct {
	weirhttp.NopObserver
	mu    sync.Mutex
	lines []string
}

func (w *walkRecord) add(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, fmt.Sprintf(format, args...))
}

func (w *walkRecord) CallEnd(_ context.Context, _ weirhttp.CallInfo, e weirhttp.CallEnd) {
	w.add("call: %d after %v, %v", e.Status, e.Duration, e.Err)
}

func (w *walkRecord) Event(_ context.Context, e weirhttp.Event) {
	w.add("event: %v %d %v", e.Kind, e.Status, short(e.Err))
}

// short cuts the stack off the text of err.
func short(err error) string {
	text, _, _ := strings.Cut(fmt.Sprint(err), "\n")
	return text
}

// outcomes writes down with which Outcome the permits of a Concurrency come back.
type outcomes struct {
	*limit.Concurrency
	name string
	to   *walkRecord
}

func (o outcomes) Acquire(ctx context.Context) (limit.Permit, error) {
	p, err := o.Concurrency.Acquire(ctx)
	if err != nil {
		return p, err
	}
	return limit.NewPermit(func(how limit.Outcome) {
		o.to.add("%s: %v", o.name, how)
		p.Release(how)
	}), nil
}

type receiptWriter struct {
	http.ResponseWriter
	to *walkRecord
}

func (w *receiptWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *receiptWriter) SetReceipt(r weirhttp.Receipt) {
	w.to.add("receipt: %v %q upstream %d, queued %v, %v", r.Outcome, r.Detail, r.UpstreamStatus, r.Queued, short(r.Err))
}
