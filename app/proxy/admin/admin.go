package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"strings"

	"github.com/weir-go/weir/app/jobsctl"
	"github.com/weir-go/weir/console"
	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/once"
	"github.com/weir-go/weir/plain"
	"github.com/weir-go/weir/weirhttp"
)

// A Gateway is what is administered: a gateway.Gateway, or a test's.
type Gateway interface {
	Stats() gateway.Stats
	Cache() *weirhttp.Cache
	Explain(r *http.Request) (route string, e weirhttp.Explanation)
	Invalidate(ctx context.Context, scheme, host, target string) (int, error)
	Expire(ctx context.Context, scheme, host, target string) (int, error)
}

var _ Gateway = (*gateway.Gateway)(nil)

// Options configure the endpoints.
type Options struct {
	// Token has to be sent by every client, as Authorization: Bearer, or once to the
	// login. Empty means that none is needed, and that only connections over
	// loopback are answered.
	Token string
	// Hosts are the names that clients call the listener by, beside its address
	// and localhost.
	Hosts []string
	// Sessions are the logins, which survive a
	// reload. nil means that these endpoints have their own.
	Sessions *console.Sessions
	// Ready tells why the proxy is not ready, nil if it is. nil means always.
	Ready func() error
	// Process is what /stats says about the process, beside the gateway. nil
	// means nothing.
	Process func() any
	// Jobs are the proxy's. nil means that it keeps none.
	Jobs *jobs.Store
	// JobsFail says why there are no Jobs at the moment. nil, and nil from it, mean
	// that the proxy keeps none.
	JobsFail func() *jobsctl.Failure
	// Keys are the Idempotency-Keys of the proxy's routes. nil means that it has none.
	Keys *once.Claims
	// HideKeys leaves keys and owners out of what is shown of jobs, and the queries
	// of URLs out of their errors: for browsers.
	HideKeys bool
	// Console is what browsers get below ConsolePath, without what guards it: the
	// endpoints' own guard does. nil means none.
	Console http.Handler
	// Metrics answers GET /metrics. nil means nothing.
	Metrics http.Handler
	// Logger logs purges, and what is done to jobs. nil means
	// slog.Default.
	Logger *slog.Logger
}

// ConsolePath is where the console is.
const ConsolePath = "/console/"

// New returns the endpoints for g, guarded.
func New(g Gateway, o Options) http.Handler {
	a := console.Access{Token: o.Token, Hosts: o.Hosts, Open: isProbe, Sessions: o.Sessions, Logger: o.Logger}
	if o.Console != nil {
		a.Base = ConsolePath
	}
	return a.Protect(Endpoints(g, o))
}

// isProbe says what is open without the token: probes have no secrets.
func isProbe(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) &&
		(r.URL.Path == "/healthz" || r.URL.Path == "/readyz")
}

// Endpoints returns the endpoints for g without what guards them: for what has
// a guard of its own, as the console has.
func Endpoints(g Gateway, o Options) http.Handler {
	o.Logger = plain.Logger(o.Logger)
	if o.Ready == nil {
		o.Ready = func() error { return nil }
	}
	if o.Process == nil {
		o.Process = func() any { return nil }
	}
	s := &server{gateway: g, o: o}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.index)
	mux.HandleFunc("GET /healthz", s.healthz)
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.HandleFunc("GET /stats", s.stats)
	mux.HandleFunc("GET /explain", s.explainQuery)
	mux.HandleFunc("POST /explain", s.explainBody)
	mux.HandleFunc("POST /purge", s.purge)
	s.handleJobs(mux)
	s.handleKeys(mux)
	// Not cmdline: flags are nobody else's business.
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.Handle("GET /debug/pprof/cmdline", http.NotFoundHandler())
	if o.Console != nil {
		mux.Handle(ConsolePath, http.StripPrefix(strings.TrimSuffix(ConsolePath, "/"), o.Console))
	}
	if o.Metrics != nil {
		mux.Handle("GET /metrics", o.Metrics)
	}
	return mux
}

type server struct {
	gateway Gateway
	o       Options
	census  census
}

const (
	indexHead = `weir admin

`
	indexConsole = `GET  /console/           the console, for a browser
`
	indexMetrics = `GET  /metrics            counters, for Prometheus
`
	indexRest = `GET  /healthz            the process runs
GET  /readyz             it wants traffic: 503 while it starts, drains or refuses jobs
GET  /stats              counters, as JSON
GET  /explain?url=URL    what would become of a request, and why; &method=
POST /explain            the same, {"method": "GET", "url": "…", "headers": {"Accept": "…"}, "body": "…"}
POST /purge              {"url": "…"}, {"tags": ["…"]} or {"all": true}; "expire": true makes stale
GET  /jobs               jobs, those that changed last first; ?queue=, state=, id=, limit=, counts=
POST /jobs               {"verb": "retry", "queue": "…", "states": ["dead"], "count": 12}; or {"verb": "cancel", "jobs": […]}
GET  /jobs/queues        how many jobs each queue has that are not over
POST /jobs/queues/QUEUE/pause   no job of the queue starts; resume ends that
GET  /jobs/QUEUE/ID      how a job stands; DELETE forgets it
POST /jobs/QUEUE/ID/VERB retry or cancel
GET  /idempotency        idempotency keys: counts, and calls whose outcome is unknown
POST /idempotency        {"id": "…", "settle": "done"} or "not_done": ends the doubt about a call
GET  /debug/pprof/       profiles
`
)

// index says what there is, or leads a browser to the console.
func (s *server) index(w http.ResponseWriter, r *http.Request) {
	if s.o.Console != nil && strings.Contains(r.Header.Get("Accept"), "text/html") {
		http.Redirect(w, r, ConsolePath, http.StatusFound)
		return
	}
	all := indexHead
	if s.o.Console != nil {
		all += indexConsole
	}
	if s.o.Metrics != nil {
		all += indexMetrics
	}
	text(w, http.StatusOK, all+indexRest)
}

func (s *server) healthz(w http.ResponseWriter, _ *http.Request) { text(w, http.StatusOK, "ok\n") }

func (s *server) readyz(w http.ResponseWriter, _ *http.Request) {
	if err := s.o.Ready(); err != nil {
		text(w, http.StatusServiceUnavailable, "not ready: "+err.Error()+"\n")
		return
	}
	text(w, http.StatusOK, "ready\n")
}

// stats answers with the counters of the gateway, and those of the process.
func (s *server) stats(w http.ResponseWriter, _ *http.Request) {
	answer(w, struct {
		gateway.Stats
		Process any `json:"process,omitempty"`
	}{s.gateway.Stats(), s.o.Process()})
}

// text answers with a few words.
func text(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, plain.Text(body)) // a client that has gone needs no answer
}

// answer answers with v as JSON.
func answer(w http.ResponseWriter, v any) { write(w, http.StatusOK, v) }

// fail answers with what is wrong.
func fail(w http.ResponseWriter, status int, format string, args ...any) {
	write(w, status, map[string]string{"error": fmt.Sprintf(format, args...)})
}

func write(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // with nosniff no browser reads it as HTML
	e.SetIndent("", "  ")
	_ = e.Encode(v)                       // all that is answered can be written
	_, _ = w.Write(plain.JSON(b.Bytes())) // a client that has gone needs no answer
}
