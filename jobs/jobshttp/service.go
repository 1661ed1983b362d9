package jobshttp

import (
	"context"
	"crypto/subtle"
	"errors"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/jobs"
)

// A Service serves the jobs of its routes under its path: their status, results and
// events, and requests to cancel them. Create one with [New]. It is safe for
// concurrent use.
type Service struct {
	store *jobs.Store
	o     Options

	// routes maps the names of queues to their routes, including former names. It is
	// atomic because each request reads it; it is replaced under mu.
	routes atomic.Pointer[map[string]*Route]
	mu     sync.Mutex

	draining chan struct{} // closed by Drain
	drain    sync.Once
}

// New returns the Service of the jobs in s. The error is an *OptionError.
func New(s *jobs.Store, o Options) (*Service, error) {
	if o.Path == "" {
		o.Path = DefaultPath
	}
	if o.Heartbeat == 0 {
		o.Heartbeat = DefaultHeartbeat
	}
	switch {
	case !strings.HasPrefix(o.Path, "/") || !strings.HasSuffix(o.Path, "/") || strings.ContainsAny(o.Path, "?#% "):
		return nil, &OptionError{Package: "jobshttp", Field: "Options.Path", Value: o.Path, Bound: `a path that begins and ends with "/"`}
	case o.Heartbeat < 0:
		return nil, &OptionError{Package: "jobshttp", Field: "Options.Heartbeat", Value: o.Heartbeat, Bound: "above 0"}
	}
	v := &Service{store: s, o: o, draining: make(chan struct{})}
	v.routes.Store(&map[string]*Route{})
	return v, nil
}

// Path returns the prefix of the URLs of jobs.
func (s *Service) Path() string { return s.o.Path }

// Route returns a Route in front of next, and serves its jobs. It replaces an earlier
// Route with the same name, or with a name in Formerly. The error joins an
// *OptionError for each option that is out of bounds, or is from package jobs.
func (s *Service) Route(ctx context.Context, name string, next http.Handler, o RouteOptions) (*Route, error) {
	rt, err := s.newRoute(ctx, name, next, o)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := map[string]*Route{}
	for queue, other := range *s.routes.Load() {
		now[queue] = other
	}
	rt.register(now)
	s.routes.Store(&now)
	return rt, nil
}

// Keep removes all routes except these. The jobs of the others stay stored, but are
// no longer served here.
func (s *Service) Keep(routes ...*Route) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := map[string]*Route{}
	for _, rt := range routes {
		rt.register(now)
	}
	s.routes.Store(&now)
}

// register maps the names of rt's queues to rt.
func (rt *Route) register(routes map[string]*Route) {
	for q := range rt.queues() {
		routes[q.Name()] = rt
	}
}

// Drain prepares for the shutdown of a server. Requests that are waiting for a job
// get its status, and event streams end, so that clients continue elsewhere. Later
// requests do not wait. Drain ignores ctx and returns nil; it has the signature of
// all drains. It can be called again.
func (s *Service) Drain(context.Context) error {
	s.drain.Do(func() { close(s.draining) })
	return nil
}

// until returns a context that ends after d, on Drain, or with ctx.
func (s *Service) until(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, d)
	stop := s.onDrain(cancel)
	return ctx, func() { stop(); cancel() }
}

// onDrain calls f on Drain, unless stop is called first. stop waits for the
// goroutine.
func (s *Service) onDrain(f func()) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-s.draining:
			f()
		case <-quit:
		}
	}()
	return func() { close(quit); <-done }
}

// askTimeout bounds the store's operations for one request, not counting waits.
const askTimeout = 10 * time.Second

var idForm = regexp.MustCompile(`^[0-9a-f]{32}$`)

// ServeHTTP serves PATH/ID, PATH/ID/result and PATH/ID/events. Jobs that do not exist
// and jobs of other clients get the same 404.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", private)
	rest, ok := strings.CutPrefix(r.URL.Path, s.o.Path)
	id, part, below := strings.Cut(rest, "/")
	if !ok || !idForm.MatchString(id) || below && part != "result" && part != "events" {
		refuse(w, r, jobs.ErrNotFound)
		return
	}
	allowed := []string{http.MethodGet, http.MethodHead}
	if !below {
		allowed = append(allowed, http.MethodDelete)
	}
	if !slices.Contains(allowed, r.Method) {
		allow := strings.Join(allowed, ", ")
		w.Header().Set("Allow", allow)
		writeProblem(w, r, verdict{http.StatusMethodNotAllowed, 0, "Allowed methods: " + allow + "."})
		return
	}
	job, err := s.find(r, id)
	if err != nil {
		refuse(w, r, err)
		return
	}
	switch {
	case r.Method == http.MethodDelete:
		s.cancel(w, r, job)
	case part == "result":
		s.result(w, r, job)
	case part == "events" || wantsEvents(r):
		s.events(w, r, job)
	default:
		s.status(w, r, job)
	}
}

// A found job is one that the client of r can access.
type found struct {
	route  *Route
	handle *jobs.Handle[Response]
	status jobs.Status
}

// find returns the job, or jobs.ErrNotFound if it is not r's.
func (s *Service) find(r *http.Request, id string) (found, error) {
	ctx, cancel := context.WithTimeout(r.Context(), askTimeout)
	defer cancel()
	routes := *s.routes.Load()
	status, err := s.store.FindIn(ctx, slices.Collect(maps.Keys(routes)), id)
	if err != nil {
		return found{}, err
	}
	rt := routes[status.Queue]
	owner := principal(r.Header, rt.o.Principal)
	// An anonymous client has no credentials beyond the address of its job.
	if status.Owner != anonymous && subtle.ConstantTimeCompare([]byte(owner), []byte(status.Owner)) != 1 {
		return found{}, jobs.ErrNotFound
	}
	return found{rt, rt.queueOf(status.Queue).Job(id), status}, nil
}

// cancel serves DELETE.
func (s *Service) cancel(w http.ResponseWriter, r *http.Request, job found) {
	if job.route.o.ShareAnonymous && job.status.Owner == anonymous {
		refuse(w, r, errShared)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), askTimeout)
	defer cancel()
	if err := job.handle.Cancel(ctx); err != nil {
		refuse(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// result serves PATH/ID/result.
func (s *Service) result(w http.ResponseWriter, r *http.Request, job found) {
	status, err := s.await(w, r, job)
	switch {
	case err != nil:
	case status.State == jobs.StateDone:
		var p Response
		ctx, cancel := context.WithTimeout(r.Context(), askTimeout)
		defer cancel()
		if p, err = job.handle.Wait(ctx); err == nil {
			p.own().write(w, r, nil)
			return
		}
	case status.State == jobs.StateCanceled:
		err = jobs.ErrCanceled
	case status.State.Terminal():
		err = &jobs.JobError{ID: status.ID, State: status.State, Attempt: status.Attempt, Message: status.Error}
	default:
		s.accepted(w, r, status)
		return
	}
	refuse(w, r, err)
}

// await returns the job's status: at once, or with Prefer: wait=N when it is over or
// after the wait. If If-None-Match has the current ETag, any change ends the wait.
func (s *Service) await(w http.ResponseWriter, r *http.Request, job found) (jobs.Status, error) {
	status, prefer := job.status, readPrefer(r.Header)
	w.Header().Add("Vary", "Prefer, Accept")
	if !prefer.waits {
		return status, nil
	}
	wait := min(prefer.wait, job.route.o.MaxWait)
	prefer.async = false
	w.Header().Set("Preference-Applied", prefer.applied(wait))
	known := r.Header.Get("If-None-Match")
	if status.State.Terminal() || wait == 0 || known != "" && known != s.etag(status) {
		return status, nil
	}
	ctx, cancel := s.until(r.Context(), wait)
	defer cancel()
	for next, err := range job.handle.Watch(ctx) {
		if errors.Is(err, jobs.ErrNotFound) {
			return status, err
		}
		if err != nil {
			break // the wait is over, or the store is unavailable: return the last known status
		}
		changed := !s.alike(next, status)
		status = next
		if status.State.Terminal() || known != "" && changed {
			break
		}
	}
	return status, nil
}
