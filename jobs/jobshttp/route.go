package jobshttp

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/once"
	"github.com/weir-go/weir/option"
	"github.com/weir-go/weir/weirhttp"
)

// A queue holds requests, and the responses to them.
type queue = jobs.Queue[Request, Response]

// A Route wraps a handler. It turns a request into a job if the request prefers that
// (Prefer: respond-async), or if the options require it. Create one with [Service.Route]. It is safe for concurrent use.
type Route struct {
	service *Service
	name    string
	next    http.Handler
	o       RouteOptions
	reads   *weirhttp.Reads

	pair
	former []pair // of its former names
}

// A pair is the two queues of a route's name.
type pair struct {
	often *queue // safe requests, and those with an Idempotency-Key
	once  *queue // the others
}

func (s *Service) newRoute(ctx context.Context, name string, next http.Handler, o RouteOptions) (*Route, error) {
	f := option.Faults{Package: "jobshttp"}
	f.Check(ValidName(name), "name", name, nameBound)
	i := slices.Index(o.Formerly, name)
	f.Check(i < 0, fmt.Sprintf("RouteOptions.Formerly[%d]", i), name, "another name than the route's")
	f.Add(o.Validate())
	if err := f.Err(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	reads, err := weirhttp.NewReads(o.Reads)
	if err != nil {
		return nil, err // not after Validate
	}
	rt := &Route{service: s, name: name, next: next, o: o, reads: reads}
	own, err := s.newPair(ctx, name, o)
	if err != nil {
		return nil, fmt.Errorf("jobshttp: route %s: %w", name, err)
	}
	rt.pair = own
	for _, was := range o.Formerly {
		p, err := s.newPair(ctx, was, o)
		if err != nil {
			return nil, fmt.Errorf("jobshttp: route %s, formerly %s: %w", name, was, err)
		}
		rt.former = append(rt.former, p)
	}
	return rt, nil
}

func (s *Service) newPair(ctx context.Context, name string, o RouteOptions) (p pair, err error) {
	for _, q := range []struct {
		at       **queue
		name     string
		attempts int
	}{{&p.often, name, o.Attempts}, {&p.once, name + onceSuffix, o.UnsafeAttempts}} {
		o := o.Queue
		o.MaxAttempts = q.attempts
		o.MaxCrashes = min(o.MaxCrashes, q.attempts)
		made, err := jobs.NewQueue[Request, Response](ctx, s.store, q.name, o)
		if err != nil {
			return p, err
		}
		*q.at = made.WithCodecs(requests, responses)
	}
	return p, nil
}

// Name returns the route's name.
func (rt *Route) Name() string { return rt.name }

// Stats counts the requests that became jobs in this process.
func (rt *Route) Stats() jobs.Stats {
	var sum jobs.Stats
	for q := range rt.queues() {
		s := q.Stats()
		sum.Submitted += s.Submitted
		sum.Joined += s.Joined
		sum.Refused += s.Refused
	}
	return sum
}

// pairs returns all pairs that the route serves, its current one first.
func (rt *Route) pairs() []pair { return append([]pair{rt.pair}, rt.former...) }

// queues yields the queues of all pairs.
func (rt *Route) queues() iter.Seq[*queue] {
	return func(yield func(*queue) bool) {
		for _, p := range rt.pairs() {
			if !yield(p.often) || !yield(p.once) {
				return
			}
		}
	}
}

// queueOf returns the route's queue with this name, or nil.
func (rt *Route) queueOf(name string) *queue {
	for q := range rt.queues() {
		if q.Name() == name {
			return q
		}
	}
	return nil
}

// ServeHTTP responds to r from a job, or passes it to the handler.
func (rt *Route) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	prefer := readPrefer(r.Header)
	if !rt.takes(r, prefer) {
		rt.next.ServeHTTP(&varying{ResponseWriter: w, add: http.Header{"Vary": {"Prefer"}}}, unmarked(r))
		return
	}
	key, err := once.Key(r.Header)
	if err != nil {
		w.Header().Set("Vary", "Prefer")
		refuse(w, r, err)
		return
	}
	wait := rt.o.Budget
	switch {
	case prefer.waits:
		wait = min(prefer.wait, rt.o.MaxWait)
	case prefer.async:
		wait = 0
	}
	extra := http.Header{"Vary": {"Prefer"}}
	if applied := prefer.applied(wait); applied != "" {
		extra.Set("Preference-Applied", applied)
	}
	if r, err = rt.buffered(w, r); err != nil {
		w.Header().Set("Vary", "Prefer")
		refuse(w, r, err)
		return
	}
	if rt.o.AskCache && rt.fromCache(w, r, extra) {
		return
	}
	job, err := rt.submit(w, r, key)
	if err != nil {
		w.Header().Set("Vary", "Prefer")
		refuse(w, r, err)
		return
	}
	rt.answer(w, r, job, wait, extra)
}

// Closed returns a handler to use instead of a [Route] with these options while no
// jobs can be stored. It refuses a request that would become a job with the verdict
// on err, and passes all others to next.
func Closed(next http.Handler, o RouteOptions, err error) http.Handler {
	rt := &Route{next: next, o: o.withDefaults()}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if rt.takes(r, readPrefer(r.Header)) {
			w.Header().Set("Vary", "Prefer")
			refuse(w, r, err)
			return
		}
		rt.ServeHTTP(w, r)
	})
}

// Refuse responds to r with the verdict on an error of package jobs, as a problem
// document (RFC 9457).
func Refuse(w http.ResponseWriter, r *http.Request, err error) { refuse(w, r, err) }

// unmarked returns r without the fields that identify a job's attempt, because a
// client could forge them.
func unmarked(r *http.Request) *http.Request {
	if r.Header[attemptField] == nil && r.Header[fenceField] == nil {
		return r
	}
	r = r.Clone(r.Context())
	delete(r.Header, attemptField)
	delete(r.Header, fenceField)
	return r
}

// takes reports whether r becomes a job. A response that is a stream cannot be
// stored, and only-if-cached allows no call.
func (rt *Route) takes(r *http.Request, prefer preferences) bool {
	switch {
	case !prefer.async && rt.o.Budget == 0:
		return false
	case r.Method == http.MethodConnect || r.Method == http.MethodTrace || r.Header.Get("Upgrade") != "":
		return false
	case wantsEvents(r) || strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc"):
		return false
	}
	return !hasDirective(r.Header, "only-if-cached")
}

// hasDirective reports whether Cache-Control has the given directive, without a
// value.
func hasDirective(h http.Header, name string) bool {
	for _, line := range h["Cache-Control"] {
		for part := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.Trim(part, " \t"), name) {
				return true
			}
		}
	}
	return false
}

// fromCache responds to r if the handler has the response without a call.
func (rt *Route) fromCache(w http.ResponseWriter, r *http.Request, extra http.Header) bool {
	plain := (r.Method == http.MethodGet || r.Method == http.MethodHead) && r.ContentLength == 0
	body, read := r.Body.(*replayed)
	if !plain && !read || hasDirective(r.Header, "no-cache") {
		return false
	}
	ask := r.Clone(r.Context())
	if read {
		ask.Body = replay(body.bytes)
	}
	ask.Header["Cache-Control"] = append(slices.Clip(ask.Header["Cache-Control"]), "only-if-cached")
	p := &probe{w: &varying{ResponseWriter: w, add: extra}, header: http.Header{}}
	rt.next.ServeHTTP(p, ask)
	return p.hit
}

// submit turns r into a job. key is its Idempotency-Key, or "".
func (rt *Route) submit(w http.ResponseWriter, r *http.Request, key string) (*jobs.Handle[Response], error) {
	owner := principal(r.Header, rt.o.Principal)
	in, err := newRequest(w, r, rt.o.MaxBody, rt.o.secret())
	if err != nil {
		return nil, err
	}
	if _, ok := r.Body.(*replayed); ok {
		in.read, _ = rt.reads.Digest(r, in.Body)
	}
	// The stored request may lack the credentials, so check the received one.
	credentials := len(r.Header["Authorization"])+len(r.Header["Cookie"]) > 0
	own := owner == anonymous && (credentials || !rt.o.ShareAnonymous)
	o := jobs.SubmitOptions{Key: in.keyOf(key, owner, own), Owner: owner, Label: in.label(), Fingerprint: in.fingerprint()}
	if key != "" && owner != anonymous {
		// The principal is known; its token and its cookies may change.
		o.Fingerprint = in.without("Cookie").without("Authorization").fingerprint()
	}
	// With an Idempotency-Key nothing runs again, whatever caches may store and
	// however the job ended: the client asked for one run and its outcome.
	o.Once = key != ""
	o.Restart = !o.Once && hasDirective(r.Header, "no-cache")
	q := rt.often
	if o.Key == "" {
		q, o.Fingerprint = rt.once, ""
	}
	ctx, cancel := context.WithTimeout(r.Context(), askTimeout)
	defer cancel()
	if job, err := rt.joinFormer(ctx, in, o); !errors.Is(err, jobs.ErrNotFound) {
		return job, err
	}
	return q.Submit(ctx, in, o)
}

// joinFormer joins the job of in that was accepted under a former name of the route,
// if the route's own queue has none. Otherwise it returns ErrNotFound.
func (rt *Route) joinFormer(ctx context.Context, in Request, o jobs.SubmitOptions) (*jobs.Handle[Response], error) {
	if len(rt.former) == 0 || o.Key == "" {
		return nil, jobs.ErrNotFound
	}
	job, err := rt.often.Join(ctx, in, o)
	for i := 0; i < len(rt.former) && errors.Is(err, jobs.ErrNotFound); i++ {
		job, err = rt.former[i].often.Join(ctx, in, o)
	}
	return job, err
}

// answer responds to r with the job's result if it is there in time, otherwise with
// 202.
func (rt *Route) answer(w http.ResponseWriter, r *http.Request, job *jobs.Handle[Response], wait time.Duration, extra http.Header) {
	p, err := rt.result(r.Context(), job, wait)
	if err == nil {
		p.write(w, r, extra)
		return
	}
	if context.Cause(r.Context()) != nil {
		return // the client has gone; the job continues
	}
	h := w.Header()
	for name, values := range extra {
		h[name] = values
	}
	if errors.As(err, new(*jobs.JobError)) || errors.Is(err, jobs.ErrCanceled) {
		h.Set("Location", rt.service.o.Path+job.ID())
		refuse(w, r, err)
		return
	}
	h["Vary"] = append(slices.Clip(h["Vary"]), "Accept")
	rt.service.accepted(w, r, rt.stands(r.Context(), job, wait))
}

// errLater: there is no result yet.
var errLater = errors.New("jobshttp: later")

// result waits for the job's result.
func (rt *Route) result(ctx context.Context, job *jobs.Handle[Response], wait time.Duration) (Response, error) {
	if wait == 0 {
		if !job.Joined() {
			return Response{}, errLater
		}
		// Return a finished result at once. Only a query shows whether there is one.
		ctx, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		if status, err := job.Status(ctx); err != nil || status.State != jobs.StateDone {
			return Response{}, errLater
		}
		return job.Wait(ctx)
	}
	ctx, cancel := rt.service.until(ctx, wait)
	defer cancel()
	return job.Wait(ctx)
}

// stands returns the job's status. It does not query for a job that was submitted
// just now.
func (rt *Route) stands(ctx context.Context, job *jobs.Handle[Response], wait time.Duration) jobs.Status {
	if wait > 0 || job.Joined() {
		ctx, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		if status, err := job.Status(ctx); err == nil {
			return status
		}
	}
	return jobs.Status{ID: job.ID(), State: jobs.StateQueued, Durability: job.Durability()}
}

// A varying adds fields to the response header.
type varying struct {
	http.ResponseWriter
	add   http.Header
	added bool
}

var _ weirhttp.ReceiptWriter = (*varying)(nil)

// WriteHeader implements http.ResponseWriter.
func (v *varying) WriteHeader(status int) {
	if !v.added && (status >= 200 || status == http.StatusSwitchingProtocols) {
		v.added = true
		h := v.Header()
		for name, values := range v.add {
			h[name] = append(h[name][:len(h[name]):len(h[name])], values...)
		}
	}
	v.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (v *varying) Write(p []byte) (int, error) {
	if !v.added {
		v.WriteHeader(http.StatusOK)
	}
	return v.ResponseWriter.Write(p)
}

// Flush implements http.Flusher, for handlers that require it.
func (v *varying) Flush() {
	if !v.added {
		v.WriteHeader(http.StatusOK)
	}
	_ = http.NewResponseController(v.ResponseWriter).Flush() // a writer that cannot flush sends at the end
}

// Unwrap is for http.ResponseController.
func (v *varying) Unwrap() http.ResponseWriter { return v.ResponseWriter }

// SetReceipt is of weirhttp.ReceiptWriter.
func (v *varying) SetReceipt(r weirhttp.Receipt) { weirhttp.SetReceipt(v.ResponseWriter, r) }

// A probe passes on a cached response, and drops any other.
type probe struct {
	w       *varying
	header  http.Header // until the header is passed on
	receipt weirhttp.Receipt
	decided bool
	hit     bool
}

var _ weirhttp.ReceiptWriter = (*probe)(nil)

// Header implements http.ResponseWriter.
func (p *probe) Header() http.Header {
	if p.hit {
		return p.w.Header()
	}
	return p.header
}

// SetReceipt implements weirhttp.ReceiptWriter.
func (p *probe) SetReceipt(r weirhttp.Receipt) {
	p.receipt = r
	if p.hit {
		p.w.SetReceipt(r)
	}
}

// WriteHeader implements http.ResponseWriter.
func (p *probe) WriteHeader(status int) {
	if !p.decided && status >= 200 {
		p.decided = true
		p.hit = p.receipt.Outcome == weirhttp.OutcomeHit || p.receipt.Outcome == weirhttp.OutcomeStale
		if p.hit {
			h := p.w.Header()
			for name, values := range p.header {
				h[name] = values
			}
			p.w.SetReceipt(p.receipt)
		}
	}
	if p.hit {
		p.w.WriteHeader(status)
	}
}

// Write implements http.ResponseWriter.
func (p *probe) Write(b []byte) (int, error) {
	if !p.decided { // a status that is written twice is a complaint in the server's log
		p.WriteHeader(http.StatusOK)
	}
	if !p.hit {
		return len(b), nil
	}
	return p.w.Write(b)
}

// Flush implements http.Flusher.
func (p *probe) Flush() {
	if p.hit {
		p.w.Flush()
	}
}
