package weirhttp

import (
	"context"
	"errors"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/rfc9111"
)

// A DurationField is a request field with a duration, such as the time for which a client
// waits. The zero DurationField is no field.
type DurationField struct {
	// Name is the name of the field. Empty means none.
	Name string
	// Unit is how a value is written. It is required with a Name.
	Unit DurationUnit
}

// A DurationUnit is the unit of the numbers in a [DurationField]. A value that is read may have
// a decimal fraction ("1.5"), one that is sent is a whole number.
type DurationUnit uint8

// The units.
const (
	Seconds      DurationUnit = 1 + iota // 2
	Milliseconds                         // 2000
	Microseconds                         // 2000000
	// GRPC is the form of grpc-timeout, at most 8 digits and a letter (H, M, S, m, u or n):
	// 2S. It has no fractions.
	GRPC
)

// String returns "s", "ms", "us" or "grpc".
func (u DurationUnit) String() string {
	if u == 0 || u > GRPC {
		return "none"
	}
	return [...]string{Seconds: "s", Milliseconds: "ms", Microseconds: "us", GRPC: "grpc"}[u]
}

// of returns the duration of the unit.
func (u DurationUnit) of() time.Duration {
	return [...]time.Duration{Seconds: time.Second, Milliseconds: time.Millisecond, Microseconds: time.Microsecond}[u]
}

// grpcTimeout is the field of the gRPC protocol.
const grpcTimeout = "Grpc-Timeout"

// envoyTimeout is a field in which Envoy tells the deadline of one request.
const envoyTimeout = "X-Envoy-Expected-Rq-Timeout-Ms"

// ErrOutOfTime is the error of a request that states for how long its client waits
// (Options.Deadline), and whose time was over before there was a response. Like a client
// that has left, it says nothing about the origin.
var ErrOutOfTime = errors.New("weirhttp: the time that the request states is over")

func (d DurationField) check(check func(ok bool, field string, value any, bound string) bool, at string, p Policy) {
	if d.Name == "" {
		check(d.Unit == 0, at+".Name", `""`, "the name of a field")
		return
	}
	check(rfc9111.IsFieldName(d.Name), at+".Name", strconv.Quote(d.Name), "the name of a field")
	check(d.Unit >= Seconds && d.Unit <= GRPC, at+".Unit", d.Unit, "a unit: s, ms, us or grpc")
	is := func(name string) bool { return strings.EqualFold(name, d.Name) }
	check(!slices.ContainsFunc(p.Vary, is), at+".Name", strconv.Quote(d.Name), "a field that vary does not name: a deadline selects no response")
	check(!slices.ContainsFunc(unfit, is), at+".Name", strconv.Quote(d.Name), "a field that only has a duration")
}

// unfit are fields that have another meaning, and that are read or written elsewhere.
var unfit = []string{"Authorization", "Connection", "Content-Length", "Content-Type", "Cookie", "Host", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}

// parse returns the duration that text states.
func (u DurationUnit) parse(text string) (time.Duration, bool) {
	if u == GRPC {
		return parseGRPC(text)
	}
	whole, fraction, cut := strings.Cut(text, ".")
	if len(whole) == 0 || len(whole) > 15 || cut && (len(fraction) == 0 || len(fraction) > 9) || !isDigits(whole) || !isDigits(fraction) {
		return 0, false
	}
	n, _ := strconv.ParseInt(whole, 10, 64)
	d := times(n, u.of())
	if cut {
		f, _ := strconv.ParseFloat("0."+fraction, 64)
		d += min(time.Duration(f*float64(u.of())), forever-d)
	}
	return d, true
}

// parseGRPC reads grpc-timeout (gRPC over HTTP/2, Timeout).
func parseGRPC(text string) (time.Duration, bool) {
	last := len(text) - 1
	if last < 1 || last > 8 || !isDigits(text[:last]) {
		return 0, false
	}
	unit, ok := map[byte]time.Duration{
		'H': time.Hour, 'M': time.Minute, 'S': time.Second, 'm': time.Millisecond, 'u': time.Microsecond, 'n': time.Nanosecond,
	}[text[last]]
	n, _ := strconv.ParseInt(text[:last], 10, 64)
	return times(n, unit), ok
}

// times returns n × unit, or forever.
func times(n int64, unit time.Duration) time.Duration {
	if unit > 0 && n > int64(forever/unit) {
		return forever
	}
	return time.Duration(n) * unit
}

func isDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

// format returns d as a value, rounded down so that no server has more time than the client,
// and at least one unit.
func (u DurationUnit) format(d time.Duration) string {
	d = max(d, 0)
	if u != GRPC {
		return strconv.FormatInt(max(int64(d/u.of()), 1), 10)
	}
	const most = 99_999_999
	for _, one := range []struct {
		unit   time.Duration
		letter string
	}{{time.Nanosecond, "n"}, {time.Microsecond, "u"}, {time.Millisecond, "m"}, {time.Second, "S"}, {time.Minute, "M"}} {
		if n := int64(d / one.unit); n <= most {
			return strconv.FormatInt(max(n, 1), 10) + one.letter
		}
	}
	return strconv.FormatInt(int64(d/time.Hour), 10) + "H"
}

// stated returns for how long the client of r, which is as the client has sent it, waits.
// found is the name of the field, empty if there is none; ok is false if its value is
// malformed. Of several, the shortest counts.
func (h *Handler) stated(r *http.Request) (d time.Duration, found string, ok bool) {
	d, ok = forever, true
	read := func(name string, unit DurationUnit) {
		lines := r.Header[name]
		if len(lines) == 0 {
			return
		}
		one, good := time.Duration(0), len(lines) == 1
		if good {
			one, good = unit.parse(strings.Trim(lines[0], " \t"))
		}
		if !good {
			ok = false
			if found == "" {
				found = name
			}
			return
		}
		if one < d {
			d, found = one, name
		}
	}
	if in := h.o.Deadline; in.Name != "" {
		read(in.Name, in.Unit)
	}
	if r.Method == http.MethodPost && isGRPC(r.Header) {
		read(grpcTimeout, GRPC)
	}
	return d, found, ok
}

// A callerTime is the context of a request whose client waits until an instant. Its deadline
// ends with the head of the response, as the time-out of the route does: a body that has begun
// is not cut off.
type callerTime struct {
	context.Context
	until  time.Time
	ended  atomic.Int32 // by what it ended; an atomic, because limiters call Deadline
	timer  *time.Timer
	cancel context.CancelCauseFunc
}

// What ended a callerTime, the first of both.
const (
	byResponse = 1 + iota
	byTimer
)

// Deadline implements [context.Context].
func (t *callerTime) Deadline() (time.Time, bool) {
	until, ok := t.Context.Deadline()
	if t.ended.Load() == byResponse || ok && until.Before(t.until) {
		return until, ok
	}
	return t.until, true
}

// over reports whether no time is left. t may be nil.
func (t *callerTime) over() bool { return t != nil && time.Until(t.until) <= 0 }

// begins records that there is a response, which is not cut off any more. It reports false if
// the time was over before: then the context has ended, and the response is not for the client,
// which would get a part of it. t may be nil.
func (t *callerTime) begins() bool {
	switch {
	case t == nil:
		return true
	case t.ended.CompareAndSwap(0, byResponse):
		t.timer.Stop()
	case t.ended.Load() == byTimer:
		<-t.Context.Done() // it ends right now
		return false
	}
	return true
}

// Value implements [context.Context]: a Fallback's Handler finds t in the context of its request.
func (t *callerTime) Value(key any) any {
	if key == (callerTimeKey{}) {
		return t
	}
	return t.Context.Value(key)
}

type callerTimeKey struct{}

// end releases what t holds.
func (t *callerTime) end() {
	t.timer.Stop()
	t.cancel(nil)
}

// hurry lets c's request end with ErrOutOfTime when the time that it states, counted from
// came, is over and there is no response. The caller must call c.unhurry.
func (c *call) hurry(came time.Time) {
	if fallbackOf(c.r.Context()) != nil {
		// The Handler of the first call has read the time. It ends with the response of this one.
		if _, joined := c.w.(*recorder); joined {
			return // the call belongs to no client
		}
		if c.time, _ = c.r.Context().Value(callerTimeKey{}).(*callerTime); c.time != nil {
			c.demand.Until, _ = c.time.Deadline()
		}
		return
	}
	d, found, ok := c.h.stated(c.h.sent(c.r))
	n := &c.h.count
	if !ok {
		n.deadlineMalformed.Add(1)
	}
	if found == "" || d == forever {
		return
	}
	n.deadlineStated.Add(1)
	c.time = &callerTime{until: came.Add(d)}
	c.time.Context, c.time.cancel = context.WithCancelCause(c.r.Context())
	own := c.time
	own.timer = time.AfterFunc(time.Until(own.until), func() {
		if own.ended.CompareAndSwap(0, byTimer) {
			own.cancel(ErrOutOfTime)
		}
	})
	c.r = c.r.WithContext(c.time)
	c.demand.Until, _ = c.time.Deadline()
}

// unhurry releases what c.hurry holds. The Handler of a first call does it also for a Fallback's.
func (c *call) unhurry() {
	if c.time != nil && fallbackOf(c.r.Context()) == nil {
		c.time.end()
	}
}

// wouldEnd counts what r states in observe mode, and returns when its time would be over, zero
// for never.
func (h *Handler) wouldEnd(r *http.Request, came time.Time) (until time.Time) {
	d, found, ok := h.stated(r)
	if !ok {
		h.count.deadlineMalformed.Add(1)
	}
	if found == "" || d == forever {
		return until
	}
	h.count.deadlineStated.Add(1)
	return came.Add(d)
}

// explainDeadline describes what r states about its time.
func (h *Handler) explainDeadline(e *Explanation, r *http.Request) {
	d, found, ok := h.stated(r)
	if !ok {
		e.say("Its %s cannot be read, and is ignored.", found)
	}
	if d < forever {
		e.say("Its %s states that the client waits for %v. A call that others may join goes on after that.", found, d)
	}
	if least := h.chances.least(); d < least {
		e.say("Nine of ten calls take %v or longer: if it would need a call, it is refused without one.", least.Round(time.Microsecond))
	}
	if name := h.o.TellDeadline.Name; name != "" && !isGRPC(r.Header) {
		e.say("The upstream receives in %s how much time a call has.", name)
	}
}

// outOfTime responds to c, whose time is over: with the stored response, if that may be used
// where a call fails, or with the error.
func (c *call) outOfTime(err error) {
	c.h.count.deadlineExpired.Add(1)
	if c.mayServeStale() {
		c.stay(err)
		return
	}
	c.answer(err)
}

// A callTime is the instant until which the head of the response to a call is of use. It is in
// the context of the request that the next handler gets.
type callTime struct {
	until time.Time     // zero if the server receives no time
	field DurationField // in which it receives the time
	own   bool          // it is the deadline of the caller whose call it is
}

type callTimeKey struct{}

// callTime returns what the server of a call for req, which is about to start, receives. until is
// the deadline of its caller, zero for none and for a call that others may join. bound is the time
// that the route gives to the call, 0 for none.
func (h *Handler) callTime(req *http.Request, until time.Time, bound time.Duration) callTime {
	told := callTime{until: until, field: h.o.TellDeadline, own: !until.IsZero()}
	if isGRPC(req.Header) {
		told.field = DurationField{grpcTimeout, GRPC} // it bounds the body as well, so only a client can state it
	} else if end := time.Now().Add(bound); bound > 0 && (!told.own || end.Before(until)) {
		told.until, told.own = end, false
	}
	if told.field.Name == "" || told.until.IsZero() {
		return callTime{}
	}
	return told
}

// headTimeout returns the route's bound on the head of a response, 0 for none: it does not apply
// to streams.
func (h *Handler) headTimeout(streams bool) time.Duration {
	if streams {
		return 0
	}
	return max(h.o.HeadTimeout, 0)
}

// timed returns req, which is about to be sent, with the field that tells its server the time, and
// without what the client has sent in such fields. shared: others may join the call, or get its
// response from the store, so no field with the deadline of one client is sent.
func (h *Handler) timed(req *http.Request, told callTime, shared bool) *http.Request {
	drops := func(name string) bool {
		return h.policy.IsPerCall(name) || shared && (name == grpcTimeout || name == envoyTimeout)
	}
	out := req
	for name := range req.Header {
		if !drops(name) {
			continue
		}
		if out == req {
			out = req.WithContext(req.Context())
			out.Header = maps.Clone(req.Header)
		}
		delete(out.Header, name)
	}
	if told.until.IsZero() && req.Context().Value(callTimeKey{}) == nil {
		return out
	}
	// Also without a time: the context may have the time of a Handler in front of this one, whose
	// call is for one request, while this call may be for several.
	out = out.WithContext(context.WithValue(req.Context(), callTimeKey{}, &told))
	UpdateDeadline(out)
	return out
}

// UpdateDeadline sets the field in which r tells its server how much time is left
// ([Options].TellDeadline, or grpc-timeout) to what is left now. It is for next handlers that send
// a request some time after they received it, or more than once, with a context that is derived
// from the request's. It gives r its own Header, and does nothing if the server receives no time.
//
// own reports that it is the time of the one client whose call it is. A response that
// comes too late, or has status 504, is then no failure of the server.
func UpdateDeadline(r *http.Request) (own bool) {
	told, _ := r.Context().Value(callTimeKey{}).(*callTime)
	if told == nil || told.until.IsZero() {
		return false
	}
	if r.Header = maps.Clone(r.Header); r.Header == nil {
		r.Header = make(http.Header)
	}
	r.Header[told.field.Name] = []string{told.field.Unit.format(time.Until(told.until))}
	return told.own
}

// DeadlineStats count the requests that state for how long their clients wait (H44). Each is also
// in Requests.
type DeadlineStats struct {
	Stated    uint64 `json:"stated"`    // needed a call, or another's, and stated a time
	Malformed uint64 `json:"malformed"` // stated one that cannot be read, which was ignored
	Expired   uint64 `json:"expired"`   // of Stated, those whose time was over before there was a response
	// NoChance counts the requests that were refused because less was left than the fastest tenth of calls takes,
	// also for the deadline of a context.
	NoChance uint64 `json:"no_chance"`
}

// All yields the count of each field, by its name in metrics.
func (s DeadlineStats) All() iter.Seq2[string, uint64] {
	return func(yield func(string, uint64) bool) {
		_ = yield("stated", s.Stated) && yield("malformed", s.Malformed) && yield("expired", s.Expired) && yield("no_chance", s.NoChance)
	}
}
