package jobshttp_test

import (
	"context"
	"encoding/json"
	"io"
	stdlog "log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/embedded"
	"github.com/weir-go/weir/jobs/jobshttp"
)

// patience is how long a test waits for something that must happen.
const patience = 30 * time.Second

// newStore opens a Store on a new server.
func newStore(t testing.TB) *jobs.Store {
	t.Helper()
	s, err := embedded.Start(embedded.Options{Dir: t.TempDir(), Durability: jobs.DurabilityProcess})
	if err != nil {
		t.Fatal(err)
	}
	nc, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	store, err := jobs.Open(t.Context(), nc, jobs.StoreOptions{Durability: s.Durability()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		store.Close(context.Background())
		nc.Close()
		s.Close(context.Background())
	})
	return store
}

// An origin is the slow handler. A request to /slow waits until the test releases it.
type origin struct {
	t     testing.TB
	calls atomic.Int64
	came  chan struct{} // one value for each request to /slow
	may   chan struct{}

	mu   sync.Mutex
	last *http.Request // guarded by mu; its body has been read
	body string        // guarded by mu
	do   http.HandlerFunc
}

func newOrigin(t testing.TB) *origin {
	return &origin{t: t, came: make(chan struct{}, 1000), may: make(chan struct{}, 1000)}
}

func (o *origin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := o.calls.Add(1)
	body, _ := io.ReadAll(r.Body)
	o.mu.Lock()
	o.last, o.body = r.Clone(context.Background()), string(body)
	do := o.do
	o.mu.Unlock()
	if strings.HasPrefix(r.URL.Path, "/slow") {
		o.came <- struct{}{}
		select {
		case <-o.may:
		case <-r.Context().Done():
			o.came <- struct{}{}
			return
		}
	}
	if do != nil {
		do(w, r)
		return
	}
	w.Header().Set("X-Origin", "yes")
	w.Header().Set("X-Call", string(rune('0'+n%10)))
	w.WriteHeader(http.StatusCreated)
	io.WriteString(w, r.Method+" "+r.RequestURI+" "+string(body))
}

func (o *origin) answers(do http.HandlerFunc) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.do = do
}

func (o *origin) seen() (*http.Request, string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.last, o.body
}

// arrives waits until a request to /slow arrives.
func (o *origin) arrives() {
	o.t.Helper()
	select {
	case <-o.came:
	case <-time.After(patience):
		o.t.Fatal("no request arrived")
	}
}

// A site is a route in front of an origin, and its jobs, over a real listener.
type site struct {
	t testing.TB
	*origin
	store   *jobs.Store
	service *jobshttp.Service
	route   *jobshttp.Route
	url     string
}

type setup struct {
	route   jobshttp.RouteOptions
	options jobshttp.Options
	idle    bool // start no worker
	next    http.Handler
}

// complaints is the log of an http.Server.
type complaints struct {
	mu    sync.Mutex
	lines []string // guarded by mu; those about handlers that write a status twice
}

func (c *complaints) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if strings.Contains(string(p), "superfluous") {
		c.lines = append(c.lines, string(p))
	}
	return len(p), nil
}

func (c *complaints) check(t testing.TB) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.lines) > 0 {
		t.Errorf("the server complained %d times: %s", len(c.lines), c.lines[0])
	}
}

func newSite(t testing.TB, s setup) *site {
	t.Helper()
	x := &site{t: t, origin: newOrigin(t), store: newStore(t)}
	var err error
	if x.service, err = jobshttp.New(x.store, s.options); err != nil {
		t.Fatal(err)
	}
	if s.next == nil {
		s.next = x.origin
	}
	if s.route.Queue.RetryInitial == 0 {
		s.route.Queue.RetryInitial = 10 * time.Millisecond
	}
	if x.route, err = x.service.Route(t.Context(), "all", s.next, s.route); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle(x.service.Path(), x.service)
	mux.Handle("/", x.route)
	server := httptest.NewUnstartedServer(mux)
	log := new(complaints)
	server.Config.ErrorLog = stdlog.New(log, "", 0)
	server.Start()
	t.Cleanup(func() {
		server.Close()
		log.check(t)
	})
	t.Cleanup(func() { _ = x.service.Drain(context.Background()) })
	x.url = server.URL
	if !s.idle {
		x.works()
	}
	return x
}

// works starts the workers.
func (x *site) works() {
	x.t.Helper()
	w, err := x.route.Work(jobs.WorkerOptions{Concurrency: 8})
	if err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = w.Close(ctx) // a failure no longer matters
	})
}

// A reply is a response that was read to its end.
type reply struct {
	status int
	header http.Header
	body   string
	job    job // the body, if it is JSON
}

type job struct {
	ID         string
	State      string
	Durability string
	Attempt    int
	Error      string
	Submitted  time.Time
	Started    time.Time
	Finished   time.Time
	StatusURL  string `json:"status_url"`
	ResultURL  string `json:"result_url"`
	EventsURL  string `json:"events_url"`
	Title      string
	Status     int
	Detail     string
	Progress   jobs.Progress
}

// request sends a request; fields have the form "Name: value".
func (x *site) request(method, path, body string, fields ...string) *http.Request {
	x.t.Helper()
	r, err := http.NewRequest(method, x.url+path, strings.NewReader(body))
	if err != nil {
		x.t.Fatal(err)
	}
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		r.Header[http.CanonicalHeaderKey(name)] = append(r.Header[http.CanonicalHeaderKey(name)], value)
	}
	return r
}

func (x *site) do(method, path, body string, fields ...string) reply {
	x.t.Helper()
	return x.send(x.request(method, path, body, fields...))
}

func (x *site) send(r *http.Request) reply {
	x.t.Helper()
	ctx, cancel := context.WithTimeout(x.t.Context(), patience)
	defer cancel()
	resp, err := http.DefaultTransport.RoundTrip(r.WithContext(ctx))
	if err != nil {
		x.t.Fatalf("%s %s = %v", r.Method, r.URL, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		x.t.Fatalf("%s %s: %v", r.Method, r.URL, err)
	}
	a := reply{status: resp.StatusCode, header: resp.Header, body: string(b)}
	_ = json.Unmarshal(b, &a.job) // ignored unless it is JSON
	return a
}

// async requests a job, and accepts only 202.
func (x *site) async(method, path, body string, fields ...string) reply {
	x.t.Helper()
	a := x.do(method, path, body, append(fields, "Prefer: respond-async")...)
	if a.status != http.StatusAccepted || a.job.ID == "" {
		x.t.Fatalf("%s %s asynchronously = %d %s; want 202", method, path, a.status, a.body)
	}
	return a
}

// over waits until a job is finished, and returns its status document.
func (x *site) over(id string, fields ...string) reply {
	x.t.Helper()
	for end := time.Now().Add(patience); ; {
		a := x.do("GET", x.service.Path()+id, "", append(fields, "Prefer: wait=5")...)
		if a.status != http.StatusOK {
			x.t.Fatalf("status = %d %s; want 200", a.status, a.body)
		}
		if s := a.job.State; s == "done" || s == "failed" || s == "dead" || s == "canceled" {
			return a
		}
		if time.Now().After(end) {
			x.t.Fatalf("the job is not finished: %s", a.body)
		}
	}
}

// is fails the test if a response has a different status.
func (x *site) is(what string, a reply, status int) reply {
	x.t.Helper()
	if a.status != status {
		x.t.Errorf("%s = %d %s; want %d", what, a.status, a.body, status)
	}
	return a
}

// has fails the test if a response has a different value in a field.
func (x *site) has(what string, a reply, field, want string) {
	x.t.Helper()
	if got := strings.Join(a.header.Values(field), ", "); got != want {
		x.t.Errorf("%s: %s = %q; want %q", what, field, got, want)
	}
}

// problem fails the test if a response is not a problem document with this status.
func (x *site) problem(what string, a reply, status int) {
	x.t.Helper()
	x.is(what, a, status)
	x.has(what, a, "Content-Type", "application/problem+json")
	x.has(what, a, "Cache-Control", "no-store, private")
	if a.job.Status != status || a.job.Title != http.StatusText(status) || a.job.Detail == "" {
		x.t.Errorf("%s: the problem is %s; want one with status %d", what, a.body, status)
	}
}
