package weirhttp

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/internal/rfc9111"
	"github.com/weir-go/weir/once"
)

// An IdempotencyPolicy makes calls with an Idempotency-Key run at most once (H45): the
// response to the first request with a key is kept, and requests that repeat it get that
// response, or wait for it while the call runs. It applies to methods that are not safe,
// without those that are declared reads. An Upgrade field of a request with a key is removed.
//
// A call belongs to no client: it is not canceled when all have left. One whose outcome
// was not seen is unknown, see Unknown. Clients get its status as a problem (RFC 9457).
type IdempotencyPolicy struct {
	// Claims has the keys. Required. Handlers with the same Route and Claims share keys.
	Claims *once.Claims
	// TTL is how long a key is known, from the start of its call. 0 means 24 h, from 1 min
	// to 30 days.
	TTL time.Duration
	// Required refuses requests without a key, with 400.
	Required bool
	// Unknown is what a request gets whose call has an unknown outcome. Required.
	Unknown UnknownOutcome
	// MaxBody is the largest body of a request with a key. Larger ones get 413. 0 means
	// 1 MiB, at most MaxReadBody. Bodies in use count in ClientLimits.ReadAheadMemory.
	MaxBody int64
	// MaxResponse is the largest response that is kept, with its fields. Of a larger one, of
	// an event stream, and of one that ends with its connection (see [Sink]), only that the
	// call has run is kept: the first client gets it, and others 409. 0 means 256 KiB, at most 16 MiB. Each running call reserves it.
	MaxResponse int64
	// Keep are statuses of responses that are kept although they free the key without it:
	// 401, 403, 407, 408, 425, 429, and 503 with Retry-After, by which a server says that it
	// has not done what was requested.
	Keep []int
	// Principal are fields that say who the client is, instead of the fields with credentials,
	// in requests that Trusted reports. Only a peer that has verified them may set them. Other
	// fields of DefaultIdentity that name a user or a tenant, such as X-Tenant-Id, are then
	// compared as a part of the request.
	Principal []string
	// Trusted reports whether the peer that sent a request has verified the fields in
	// Principal. nil trusts none.
	Trusted func(*http.Request) bool
	// Client returns the address of a client. A request without credentials counts for it:
	// one principal can use a quarter of the Store. nil means the address of the connection.
	Client Client
}

// An UnknownOutcome says what a request gets whose call may have taken effect or not.
type UnknownOutcome uint8

const (
	// UnknownRefuse refuses it with 409, until an operator settles the call.
	UnknownRefuse UnknownOutcome = iota + 1
	// UnknownForward calls the next handler again, which must know keys itself.
	UnknownForward
)

// Defaults and bounds of an IdempotencyPolicy.
const (
	DefaultIdempotencyTTL      = 24 * time.Hour // IdempotencyPolicy.TTL
	DefaultIdempotencyBody     = 1 << 20        // IdempotencyPolicy.MaxBody
	DefaultIdempotencyResponse = 256 << 10      // IdempotencyPolicy.MaxResponse
)

func (p *IdempotencyPolicy) check(check func(ok bool, field string, value any, bound string) bool) {
	if p == nil {
		return
	}
	const at = "Idempotency."
	check(p.Claims != nil, at+"Claims", "nil", "set")
	check(p.TTL == 0 || p.TTL >= time.Minute && p.TTL <= 30*24*time.Hour, at+"TTL", p.TTL, "0, or from 1 min to 30 days")
	check(p.Unknown == UnknownRefuse || p.Unknown == UnknownForward, at+"Unknown", p.Unknown, "UnknownRefuse or UnknownForward")
	check(p.MaxBody >= 0 && p.MaxBody <= MaxReadBody, at+"MaxBody", p.MaxBody, "from 0 to 16 MiB (16777216)")
	check(p.MaxResponse >= 0 && p.MaxResponse <= 16<<20, at+"MaxResponse", p.MaxResponse, "from 0 to 16 MiB (16777216)")
	for _, status := range p.Keep {
		check(frees(status, true), at+"Keep", status, "401, 403, 407, 408, 425, 429 or 503")
	}
	for _, name := range p.Principal {
		check(rfc9111.IsFieldName(name), at+"Principal", strconv.Quote(name), "the name of a field")
	}
	check(len(p.Principal) <= 16, at+"Principal", len(p.Principal), "at most 16 fields")
}

// frees reports whether a server says with this status that it has not done what was
// requested.
func frees(status int, retryAfter bool) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired, http.StatusRequestTimeout,
		http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	case http.StatusServiceUnavailable:
		return retryAfter
	}
	return false
}

// idempotency is an IdempotencyPolicy that is prepared for use.
type idempotency struct {
	IdempotencyPolicy
	rule readRule // of the body
}

// newIdempotency prepares p, which is valid; nil without one.
func newIdempotency(p *IdempotencyPolicy) *idempotency {
	if p == nil {
		return nil
	}
	own := &idempotency{IdempotencyPolicy: *p}
	own.TTL = cmp.Or(p.TTL, DefaultIdempotencyTTL)
	own.MaxResponse = cmp.Or(p.MaxResponse, DefaultIdempotencyResponse)
	own.rule.most = cmp.Or(p.MaxBody, DefaultIdempotencyBody)
	own.Principal = nil
	for _, name := range p.Principal {
		own.Principal = append(own.Principal, http.CanonicalHeaderKey(name))
	}
	return own
}

// Errors of requests with a key.
var (
	errNoKey      = errors.New("weirhttp: the request has no Idempotency-Key")
	errUnknown    = errors.New("weirhttp: the outcome of the call is unknown")
	errDone       = errors.New("weirhttp: the call has run, and its response is not kept")
	errBodyMemory = errors.New("weirhttp: no memory for the body of a request with an Idempotency-Key")
)

// An unsureError is errUnknown or errDone, with the reason.
type unsureError struct {
	err    error
	reason string
}

func (e *unsureError) Error() string { return e.err.Error() + ": " + e.reason }

func (e *unsureError) Unwrap() error { return e.err }

// An UnknownOutcomeError describes a call with an Idempotency-Key that may have taken effect
// or not; see EventUnknown.
type UnknownOutcomeError struct {
	ID     once.Digest // of the call in the Store
	Call   string      // its method and path
	Reason string      // why it is unknown
	Err    error       // why the Store could not record the outcome, or nil
}

func (e *UnknownOutcomeError) Error() string {
	text := fmt.Sprintf("weirhttp: the outcome of call %.12s is unknown: %s", e.ID, e.Reason)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

func (e *UnknownOutcomeError) Unwrap() error { return e.Err }

// problemPrefix begins the types of problems.
const problemPrefix = "urn:weir:problem:"

// idempotencyAnswer is the part of answerTo about keys. It reports false for other errors.
func idempotencyAnswer(err error) (a answer, problem string, ok bool) {
	a = answer{status: http.StatusConflict, proxy: "http_request_denied"}
	switch {
	case errors.Is(err, errNoKey):
		a.status, problem, a.text = http.StatusBadRequest, "idempotency-key-required", "this request needs an Idempotency-Key"
	case errors.Is(err, once.ErrMalformedKey):
		a.status, problem, a.text = http.StatusBadRequest, "idempotency-key-malformed", "the Idempotency-Key must be one string of 1 to 255 printable characters"
	case errors.Is(err, once.ErrFingerprint):
		a.status, problem, a.text = http.StatusUnprocessableEntity, "idempotency-key-reused", "the Idempotency-Key was used for another request"
	case errors.Is(err, once.ErrCredentials):
		problem, a.text = "idempotency-key-foreign", "the Idempotency-Key was used with other credentials"
	case errors.Is(err, errUnknown):
		problem, a.text = "idempotency-outcome-unknown", "it is unknown whether the request with this Idempotency-Key took effect, and it is not sent again"
	case errors.Is(err, errDone):
		problem, a.text = "idempotency-response-not-kept", "the request with this Idempotency-Key was executed, and its response is not kept"
	case errors.Is(err, once.ErrShare), errors.Is(err, once.ErrFull):
		a.status, a.retryAfter, problem, a.text = http.StatusServiceUnavailable, time.Minute, "idempotency-store-full", "there is no room for another Idempotency-Key"
	case errors.Is(err, once.ErrStore), errors.Is(err, once.ErrConflict), errors.Is(err, once.ErrClosed), errors.Is(err, errBodyMemory):
		a.status, a.retryAfter, problem, a.text = http.StatusServiceUnavailable, time.Second, "idempotency-unavailable", "Idempotency-Keys cannot be checked at the moment"
	default:
		return answer{}, "", false
	}
	return a, problem, true
}

// serveOnce responds to r if it is a request whose call runs at most once (H45), and
// reports whether it did.
func (h *Handler) serveOnce(w http.ResponseWriter, r *http.Request, q rfc9111.Request, came time.Time, turn uint64, why bypass) bool {
	if h.safe(r) {
		return false
	}
	key, err := once.Key(r.Header)
	if err == nil && key == "" {
		if !h.once.Required {
			return false
		}
		err = errNoKey
	}
	if q.Upgrade {
		// It is only an offer, and what switches protocols has no response to keep.
		r = r.Clone(r.Context())
		delete(r.Header, "Upgrade")
		delete(r.Header, "Connection")
		q = h.readRequest(r)
	}
	c := &call{h: h, w: w, r: r, q: q, bypass: why}
	c.identify()
	c.hurry(came)
	defer c.time.end()
	defer func() {
		if !c.counted {
			c.noAnswer(errAborted)
			c.became(OutcomeFailed)
		}
	}()
	if err == nil {
		err = c.once(key, came, turn)
	}
	if err != nil {
		c.refuseOnce(err)
	}
	return true
}

// safe reports whether r changes nothing, so that it may run any number of times.
func (h *Handler) safe(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, methodQuery, http.MethodConnect:
		return true
	}
	return h.reads.of(r) != nil
}

// once responds to c, which has the key, or returns an error.
func (c *call) once(key string, came time.Time, turn uint64) error {
	h := c.h
	in, held, why, err := h.receive(c.w, c.r, &h.once.rule)
	defer held.release()
	switch {
	case err != nil:
		return err
	case why == unsharedTooLong:
		return &http.MaxBytesError{Limit: h.once.rule.most}
	case why != "":
		return errBodyMemory
	}
	c.r = in
	claim := h.claimOf(c.r, key, held.bytes)
	for {
		e, err := h.once.Claims.Begin(c.r.Context(), claim)
		if err != nil {
			return err
		}
		if e.Run == nil {
			h.requests.Record(time.Since(came))
			return c.replay(e.Record)
		}
		var lead *recorder
		if e.Leads {
			lead = c.runOnce(e.Run, held.retain(), came, turn)
		}
		if again, err := c.await(e.Run, lead, came); !again {
			return err
		}
	}
}

// await waits for the run of c, which it leads if there is a recorder, and responds to c. It
// reports whether the call has to begin anew.
func (c *call) await(run *once.Run, lead *recorder, came time.Time) (again bool, err error) {
	var spill, informed <-chan struct{}
	if lead != nil {
		c.counted = true // by the run
		spill, informed = lead.spilled, lead.informed
	} else {
		c.h.count.waiting.Add(1)
		defer c.h.count.waiting.Add(-1)
		defer func() {
			if !again {
				c.h.requests.Record(time.Since(came))
			}
		}()
	}
	for waits := true; waits; {
		select {
		case <-run.Done():
			waits = false
		case <-informed:
			c.passEarlyOf(lead)
		case <-spill:
			return false, c.stream(lead)
		case <-c.r.Context().Done():
			select {
			case <-run.Done(): // a response that is there wins
				waits = false
			default:
				if lead != nil {
					lead.leave()
				}
				c.gone()
				return false, nil
			}
		}
	}
	if lead != nil {
		c.passEarlyOf(lead)
		select {
		case <-lead.spilled: // it has ended in the meantime
			return false, c.stream(lead)
		default:
		}
	}
	rec, _ := run.Value().(*recorder)
	if rec == nil {
		return true, nil
	}
	_, _, ours := idempotencyAnswer(rec.err)
	switch {
	case rec.err != nil && lead != nil && !ours:
		c.answer(rec.err) // its run has counted it
		return false, nil
	case rec.err != nil:
		return false, rec.err
	}
	if lead == nil {
		c.receipt.Collapsed = true
		c.respond(OutcomeJoined, &rec.answer)
		return false, nil
	}
	c.receipt.Queued, c.receipt.Fallback, c.receipt.FallbackReason = rec.receipt.Queued, rec.receipt.Fallback, rec.receipt.FallbackReason
	c.respond(OutcomePass, &rec.answer)
	return false, nil
}

// replay responds to c with what is stored for its key.
func (c *call) replay(rec once.Record) error {
	switch rec.State {
	case once.Answered:
		c.w.Header()["Idempotent-Replayed"] = []string{"true"}
		c.receipt.Detail = detailReplayed
		c.respond(OutcomeHit, &rec)
		return nil
	case once.Done:
		return &unsureError{errDone, rec.Reason}
	}
	return &unsureError{errUnknown, rec.Reason}
}

// detailReplayed is the detail in Cache-Status of a response that was kept for a key.
const detailReplayed = "idempotent-replay"

// respond writes the response in rec.
func (c *call) respond(o Outcome, rec *once.Record) {
	if o != OutcomeHit {
		c.receipt.UpstreamStatus = rec.Status
	}
	dst := c.w.Header()
	copyFields(dst, rec.Header)
	c.writeHead(o, rec.Status)
	if _, err := c.w.Write(rec.Body); err == nil {
		copyTrailers(c.w, rec.Header, rec.Trailer)
	}
}

// refuseOnce responds to c with an error.
func (c *call) refuseOnce(err error) {
	if _, _, ok := idempotencyAnswer(err); !ok {
		c.fail(err)
		return
	}
	c.receipt.Detail = "idempotency"
	c.receipt.Err = err
	c.setStatus(OutcomeRefused)
	c.report(OutcomeRefused)
	c.h.refuse(c.w, c.r, answerTo(err, false, c.h.o.Gateway), err)
}

// claimOf returns what Claims has to know of r, with that key and body.
func (h *Handler) claimOf(r *http.Request, key string, body []byte) once.Call {
	credentials, verified := h.credentialsOf(r)
	principal := credentials
	if credentials == once.Sum("credentials") { // none: the room counts for the address
		principal = once.Sum("address", h.addressOf(r))
	}
	path, _, _ := strings.Cut(target(r), "?")
	if len(path) > 256 {
		path = path[:256]
	}
	return once.Call{
		ID:          once.Sum("key", h.route, key),
		Fingerprint: h.fingerprintOf(r, body, verified),
		Credentials: credentials, Principal: principal,
		Route: h.route, Name: r.Method + " " + strings.ToValidUTF8(path, "?"),
		TTL: h.once.TTL, Reserve: h.once.MaxResponse, Resend: h.once.Unknown == UnknownForward,
	}
}

func (h *Handler) addressOf(r *http.Request) string {
	if h.once.Client != nil {
		return h.once.Client(r).String()
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// fingerprintOf returns the Digest of what two requests must have in common to be the same,
// without who sent them. If that is verified, the users and tenants that r names besides are
// a part of the request: nothing else compares them.
func (h *Handler) fingerprintOf(r *http.Request, body []byte, verified bool) once.Digest {
	parts := []string{"request", r.Method, h.scheme(r), strings.ToLower(r.Host), target(r)}
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		lines := rfc9111.Fingerprinted(name, r.Header[name])
		if verified && rfc9111.NamesUser(name) {
			lines = r.Header[name]
		}
		if len(lines) == 0 || slices.Contains(h.once.Principal, name) {
			continue
		}
		parts = append(parts, name, fmt.Sprint(len(lines)))
		parts = append(parts, lines...)
	}
	return once.Sum(append(parts, string(body))...)
}

// credentialsOf returns the Digest of who sent r, and whether it is the verified principal.
// Otherwise nothing is verified, and requests with other credentials than those of the first
// are refused.
func (h *Handler) credentialsOf(r *http.Request) (_ once.Digest, verified bool) {
	parts := []string{"credentials"}
	add := func(name string, lines []string) {
		if len(lines) > 0 {
			parts = append(append(parts, name, fmt.Sprint(len(lines))), lines...)
		}
	}
	if p := h.once.Principal; len(p) > 0 && h.once.Trusted != nil && h.once.Trusted(r) {
		parts[0] = "principal"
		for _, name := range p {
			add(name, r.Header[name])
		}
		if len(parts) > 1 {
			return once.Sum(parts...), true
		}
		parts[0] = "credentials" // the peer says nothing about this one
	}
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		if rfc9111.IsCredential(name) && !slices.Contains(h.once.Principal, name) {
			add(name, r.Header[name])
		}
	}
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		add("certificate", []string{string(r.TLS.PeerCertificates[0].Raw)})
	}
	if h.o.Identity != nil {
		if id := h.o.Identity(r); id != "" {
			add("identity", []string{id})
		}
	}
	return once.Sum(parts...), false
}

// explainOnce describes what the key of r does.
func (h *Handler) explainOnce(e *Explanation, r *http.Request) {
	key, err := once.Key(r.Header)
	switch {
	case err != nil:
		e.say("Its Idempotency-Key is malformed: the response is 400.")
	case key != "":
		e.say("It has an Idempotency-Key: its call runs at most once in %v, a request that repeats it joins the call or receives the kept response, and one that differs from the first is rejected with 409 or 422.", h.once.TTL)
	case h.once.Required:
		e.say("It has no Idempotency-Key, which the route requires: the response is 400.")
	default:
		e.say("It has no Idempotency-Key: its call can run several times.")
	}
}
