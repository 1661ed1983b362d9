package weirhttp

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/weir-go/weir/internal/eventstream"
	"github.com/weir-go/weir/internal/responses"
	"github.com/weir-go/weir/internal/rfc9111"
)

// An EventPolicy shares event streams (text/event-stream) like other responses (H33):
// a running stream goes to every request that may have it, from the first event, and
// a stream that ended properly is stored and replayed. The zero value shares none of
// them: each client has a separate call, as without a cache.
//
// Only responses with status 200 are shared. Requests with Last-Event-ID are not
// shared, unless Policy.IgnoreHeaders removes it. A request that accepts
// text/event-stream shares only with others that do.
type EventPolicy struct {
	// Share lets requests for the same event stream share one call. Default: off.
	Share bool
	// TTL is the freshness lifetime of a complete stream, counted from its end. It
	// replaces the lifetime that the origin states, and overrides no-cache, which
	// servers send with event streams. It does not override no-store, private,
	// Set-Cookie, Vary: *, or the rules for requests with credentials, not even with
	// Policy.Force. 0 means that streams have the lifetime of other responses: that
	// of the origin or of Policy.TTL.
	TTL time.Duration
	// End is the data of the terminal event, such as "[DONE]"; EndType is its type,
	// such as "message_stop". If both are set, either will do. A stream whose last
	// event is another one is broken: it is not stored, and every client sees a
	// broken response. Without a terminal event, a stream is complete if its HTTP
	// message is, and if it ends between two events. Each is at most 1 KiB, without
	// CR; EndType is one line of at most 256 bytes.
	End, EndType string
	// IncompleteTypes and IncompleteData make a stream incomplete: an event of such
	// a type, or one whose data contains such a text. An incomplete stream goes to
	// the clients that have joined it. It is not stored, and from then on no request
	// joins it. At most 16 each. Of data longer than 64 KiB, the beginning is
	// searched, and the stream is incomplete.
	IncompleteTypes, IncompleteData []string
	// AsCalls lets a running stream keep its permit of Options.Limiter to its end.
	// Use it if the origin bounds streams like other calls. By default a stream
	// exchanges its permit for one of Options.Streams when its headers arrive.
	AsCalls bool
	// Replay is the pace at which stored streams are sent. The zero value is
	// ReplayFast.
	Replay Replay
}

// A Replay is the pace at which a stored event stream is sent.
type Replay uint8

const (
	// ReplayFast sends it as fast as the client reads.
	ReplayFast Replay = iota
	// ReplayPaced sends it at the pace at which it arrived, starting with the first
	// event at once. The pace is kept as at most 512 instants, which count as part of
	// the stored response. Responses from other instances are sent as fast as the
	// client reads, and so is the rest of every stream once the Handler drains or
	// closes.
	ReplayPaced
)

const maxEventTexts = 16

// check validates p.
func (p EventPolicy) check(check func(ok bool, field string, value any, bound string) bool) {
	check(p.TTL >= 0, "Events.TTL", p.TTL, "0 or more")
	check(p.Replay <= ReplayPaced, "Events.Replay", p.Replay, "ReplayFast or ReplayPaced")
	check(isEventText(p.End), "Events.End", p.End, "at most 1024 bytes, without CR")
	check(isEventType(p.EndType), "Events.EndType", p.EndType, "one line of at most 256 bytes")
	check(len(p.IncompleteTypes) <= maxEventTexts, "Events.IncompleteTypes", len(p.IncompleteTypes), "at most 16")
	for i, s := range p.IncompleteTypes {
		check(s != "" && isEventType(s), fmt.Sprintf("Events.IncompleteTypes[%d]", i), s, "one line of 1 to 256 bytes")
	}
	check(len(p.IncompleteData) <= maxEventTexts, "Events.IncompleteData", len(p.IncompleteData), "at most 16")
	for i, s := range p.IncompleteData {
		check(s != "" && isEventText(s), fmt.Sprintf("Events.IncompleteData[%d]", i), s, "1 to 1024 bytes, without CR")
	}
	none := p.TTL == 0 && p.End == "" && p.EndType == "" && len(p.IncompleteTypes)+len(p.IncompleteData) == 0 && !p.AsCalls && p.Replay == ReplayFast
	check(p.Share || none, "Events.Share", p.Share, "true where another field of Events is set")
}

func isEventText(s string) bool { return len(s) <= eventstream.MaxText && !strings.Contains(s, "\r") }

func isEventType(s string) bool {
	return len(s) <= eventstream.MaxType && !strings.ContainsAny(s, "\r\n")
}

func (p EventPolicy) rules() eventstream.Rules {
	return eventstream.Rules{
		End: p.End, EndType: p.EndType,
		IncompleteTypes: slices.Clone(p.IncompleteTypes), IncompleteData: slices.Clone(p.IncompleteData),
	}
}

// terminated reports whether streams have a terminal event.
func (p EventPolicy) terminated() bool { return p.End != "" || p.EndType != "" }

// sharesEvents reports whether a request that asks for a stream is like any other
// request: the stream can only be one of events.
func (h *Handler) sharesEvents(r *http.Request) bool { return h.o.Events.Share && !isGRPC(r.Header) }

// readRequest parses the fields of r under the policy. A request for events whose
// streams have a TTL gets a stored one even if it has no-cache, which browsers send
// with each such request of an EventSource.
func (h *Handler) readRequest(r *http.Request) rfc9111.Request {
	q := h.policy.ReadRequest(r.Header)
	q.From(r)
	if q.Streams && h.o.Events.TTL > 0 && h.sharesEvents(r) {
		q.NoCache = false
		if q.MaxAge == 0 {
			q.MaxAge = rfc9111.None
		}
	}
	return q
}

// rulesNow returns the policy by which responses are judged.
func (h *Handler) rulesNow() *rfc9111.Policy {
	if h.cache.fleet.Load() != nil || h.cache.folder.Load() != nil {
		return &h.together
	}
	return &h.policy
}

// fitsStreams reports whether s may be for a request that accepts event streams: it is
// one, or such requests select it. What was stored before the policy shared event
// streams does neither.
func fitsStreams(s *responses.Stored) bool {
	return s.Events || slices.Contains(s.Vary, rfc9111.AcceptEvents)
}

// resumes reports whether r asks for the rest of an event stream. Only the origin
// knows which events that is.
func (h *Handler) resumes(r *http.Request) bool {
	return h.o.Events.Share && r.Header["Last-Event-Id"] != nil
}

// readHead decides about the response to r, parsed as q, with these fields. fin means
// that its body ends with the connection. If the response is an event stream that the
// policy shares, readHead returns an events that must get its body; otherwise nil.
func (h *Handler) readHead(r *http.Request, q rfc9111.Request, status int, header http.Header, fin bool, sent, now time.Time) (rfc9111.Response, *events) {
	p := &h.o.Events
	if p.Share && status == http.StatusOK && isEventStream(header) && (!fin || p.terminated()) {
		e := &events{scan: eventstream.New(h.eventRules), terminated: p.terminated()}
		if p.Replay == ReplayPaced {
			e.pace = &pace{began: now}
		}
		e.fromEnd = p.TTL > 0
		return h.rulesNow().ReadEvents(r, q, status, header, p.TTL, sent, now), e
	}
	resp := h.rulesNow().Read(r, q, status, header, sent, now)
	if isStream(header) {
		resp.Storable, resp.Shared, resp.Reason = false, false, "event stream"
	}
	return resp, nil
}

// isEventStream reports whether a response with these fields is an event stream whose
// events can be seen: one without a content coding.
func isEventStream(h http.Header) bool {
	kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	return strings.EqualFold(strings.TrimSpace(kind), "text/event-stream") && h["Content-Encoding"] == nil
}

// errNoEnd is a stream that its route calls broken.
var errNoEnd = fmt.Errorf("%w: the event stream ended without its terminal event", errBroken)

// events follow one event stream that is shared. A nil *events is the body of any
// other response.
type events struct {
	scan       *eventstream.Scanner
	terminated bool // it has a terminal event
	fromEnd    bool // its lifetime counts from its end
	pace       *pace
	size       int64
}

// takes takes the next part of the body. It reports true if the stream is incomplete.
func (e *events) takes(p []byte) (incomplete bool) {
	if e == nil {
		return false
	}
	e.scan.Add(p)
	if e.size += int64(len(p)); e.pace != nil {
		e.pace.note(e.size, time.Now())
	}
	return e.scan.Incomplete()
}

// ends is called when the HTTP message is complete. It returns an error if the stream
// is not.
func (e *events) ends() error {
	if e != nil && e.terminated && !e.terminal() {
		return errNoEnd
	}
	return nil
}

// terminal reports whether the last event so far is the terminal one.
func (e *events) terminal() bool { return e != nil && e.scan.Ended() }

// storable reports whether a stream that has ended without an error may be stored: not
// one without an event, which may have been cut off before the first.
func (e *events) storable() bool {
	return e == nil || e.scan.Some() && e.scan.Between() && !e.scan.Incomplete()
}

// stored builds the stored response of a stream that has just ended, or of any other
// body.
func (e *events) stored(h *Handler, resp rfc9111.Response, req *http.Request, q rfc9111.Request, header http.Header, body []byte) *responses.Stored {
	if e != nil {
		resp.Lifetime = e.lifetime(&resp, time.Now())
	}
	s := h.stored(resp, req, q, header, body)
	if e != nil && e.pace != nil {
		s.Pace = slices.Clip(slices.Clone(e.pace.steps))
	}
	return s
}

// lifetime returns the lifetime of r, a stream that has run until now.
func (e *events) lifetime(r *rfc9111.Response, now time.Time) time.Duration {
	if !e.fromEnd {
		return r.Lifetime
	}
	return r.Lifetime + max(now.Sub(r.Received), 0)
}
