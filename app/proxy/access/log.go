package access

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/app/proxy/tally"
	"github.com/weir-go/weir/plain"
	"github.com/weir-go/weir/weirhttp"
)

// A Format is the format of a line.
type Format string

// The formats.
const (
	JSON     Format = "json"     // one object a line (log/slog)
	Text     Format = "text"     // key=value (log/slog)
	Combined Format = "combined" // as Apache's "combined"
)

// What selects the requests that are logged.
type What string

// The choices.
const (
	Off      What = "off"
	Errors   What = "errors"   // requests that failed in the proxy or the upstream
	Problems What = "problems" // Errors, and slow requests
	All      What = "all"
)

// The defaults.
const (
	DefaultSlow      = time.Second
	DefaultPerSecond = 100
)

// Options configures a Log. The zero Options log problems, as JSON.
type Options struct {
	Out    io.Writer // receives whole lines; must be safe for concurrent use, such as an Output
	Format Format    // empty means JSON
	What   What      // empty means Problems
	// Slow is the time to the first byte of the response above which a request is slow.
	// Long event streams and downloads are not slow. 0 means 1 s.
	Slow time.Duration
	// NoQuery omits the query from the target, and the Referer from the combined format.
	// Queries are logged by default because they are part of the cache key; Authorization
	// and Cookie are never logged.
	NoQuery bool
	// PerSecond limits the lines of Errors and Problems, because an outage under load would
	// otherwise write one per request. Dropped lines are counted and reported to Logger. 0
	// means 100, negative means no limit. All is never limited.
	PerSecond int
	// Logger logs how many lines were dropped. nil means slog.Default.
	Logger *slog.Logger
	// Client returns the client's address. nil means the address of the connection.
	Client func(*http.Request) string
	// Tally counts the responses, whatever is logged. nil means that nothing is counted.
	Tally *tally.Tally
}

// A Log writes the access log. It is safe for concurrent use and has nothing to
// close.
type Log struct {
	o       Options
	slog    slog.Handler // nil for Combined
	lines   throttle
	writers sync.Pool // of *writer
}

// New returns a Log. Unknown values of Format and What mean the default.
func New(o Options) *Log {
	if o.Out == nil {
		o.Out = io.Discard
	}
	if o.What == "" {
		o.What = Problems
	}
	if o.Slow == 0 {
		o.Slow = DefaultSlow
	}
	if o.PerSecond == 0 {
		o.PerSecond = DefaultPerSecond
	}
	o.Logger = plain.Logger(o.Logger)
	if o.Client == nil {
		o.Client = connection
	}
	l := &Log{o: o}
	if o.What != All {
		l.lines.most = max(o.PerSecond, 0)
	}
	l.writers.New = func() any { return new(writer) }
	switch o.Format {
	case Combined:
	case Text:
		l.slog = plain.Handler(slog.NewTextHandler(o.Out, nil))
	default:
		l.slog = plain.Handler(slog.NewJSONHandler(o.Out, nil))
	}
	return l
}

// LeftOut returns how many lines were dropped because of PerSecond.
func (l *Log) LeftOut() uint64 { return l.lines.total.Load() }

// Handler returns next with its requests logged.
func (l *Log) Handler(next http.Handler) http.Handler {
	if l.o.What == Off && l.o.Tally == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lw := l.writers.Get().(*writer)
		lw.ResponseWriter, lw.start, lw.broken = w, time.Now(), true
		// As the request came: handlers may change it.
		lw.method, lw.target, lw.host = r.Method, r.RequestURI, r.Host
		defer func() {
			l.done(lw, r)
			*lw = writer{}
			l.writers.Put(lw)
		}()
		next.ServeHTTP(lw, r)
		lw.broken = false // a panic, which propagates to the server, skips this line
	})
}

// done logs the request if it is of interest.
func (l *Log) done(w *writer, r *http.Request) {
	if l.o.Tally != nil {
		l.o.Tally.Count(w.receipt.Route, w.class(r))
	}
	if l.o.What == Off {
		return
	}
	now := time.Now()
	wait := now.Sub(w.start)
	if !w.first.IsZero() {
		wait = w.first.Sub(w.start)
	}
	failed := w.failed(r)
	slow := wait >= l.o.Slow && l.o.Slow > 0
	if l.o.What != All && !failed && (!slow || l.o.What == Errors) {
		return
	}
	ok, left := l.lines.allow(now)
	if left > 0 {
		l.o.Logger.Warn("the access log left out lines: more than it is allowed to write in a second", "lines", left, "allowed", l.o.PerSecond)
	}
	if !ok {
		return
	}
	if l.slog == nil {
		l.combined(w, r)
		return
	}
	level := slog.LevelInfo
	switch {
	case failed && (w.broken || w.status >= 500) && !errors.Is(w.receipt.Err, weirhttp.ErrSlowClient):
		level = slog.LevelError
	case failed || slow:
		level = slog.LevelWarn
	}
	l.structured(level, w, r, now, wait)
}

// errUnreadable is the error of a request that was rejected before it was read.
var errUnreadable = errors.New("the request is malformed or too large")

// Rejected counts and logs a response that was sent without a call of a handler, because
// the request could not be read. The line has none of its bytes. It is written if everything
// is logged: only the client can be at fault.
func (l *Log) Rejected(client string, status int) {
	if l.o.Tally != nil {
		l.o.Tally.Count("", tally.Of(status))
	}
	if l.o.What != All {
		return
	}
	now := time.Now()
	w := &writer{ResponseWriter: headerless{}, start: now, status: status}
	w.receipt.Err = errUnreadable
	r := &http.Request{RemoteAddr: client}
	if l.slog == nil {
		l.combined(w, r)
		return
	}
	l.structured(slog.LevelInfo, w, r, now, 0)
}

// headerless is the ResponseWriter of a response that no handler has sent.
type headerless struct{ http.ResponseWriter }

func (headerless) Header() http.Header { return nil }

// failed reports whether the request failed for a reason other than the client, or the
// client was cut for being slow.
func (w *writer) failed(r *http.Request) bool {
	switch {
	case w.status >= 500, errors.Is(w.receipt.Err, weirhttp.ErrSlowClient): // operators need to know
		return true
	case w.broken:
		return r.Context().Err() == nil // otherwise the client has left
	default:
		return w.receipt.Err != nil && w.status < 400 // a stale response instead of a failure
	}
}

// class returns what the client received. A client that left, or was disconnected because
// it was too slow, did not receive the whole response; a broken response is the fault of
// weir or of the upstream.
func (w *writer) class(r *http.Request) tally.Class {
	switch {
	case (w.broken || w.status == 0 || w.status == statusLeft) && r.Context().Err() != nil, w.broken && errors.Is(w.receipt.Err, weirhttp.ErrSlowClient):
		return tally.Left
	case w.broken:
		return tally.Broken
	case w.status == 0:
		return tally.Success // net/http sends 200
	}
	return tally.Of(w.status)
}

// statusLeft is the status with which weirhttp marks requests whose client has left.
const statusLeft = 499

// A throttle allows a number of lines per second.
type throttle struct {
	most  int // 0 lets all through
	total atomic.Uint64

	mu     sync.Mutex
	second int64  // guarded by mu; of the Unix clock
	n      int    // guarded by mu; lines in this second
	left   uint64 // guarded by mu; dropped since the last report
}

// allow reports whether a line may be written, and how many were dropped since it last
// returned that number.
func (t *throttle) allow(now time.Time) (ok bool, left uint64) {
	if t.most == 0 {
		return true, 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := now.Unix(); s != t.second {
		t.second, t.n = s, 0
		left, t.left = t.left, 0
	}
	if t.n++; t.n > t.most {
		t.left++
		t.total.Add(1)
		return false, left
	}
	return true, left
}

// structured writes a line with log/slog. Its time is the request's arrival.
func (l *Log) structured(level slog.Level, w *writer, r *http.Request, now time.Time, wait time.Duration) {
	rec := slog.NewRecord(w.start, level, "request", 0)
	rec.AddAttrs(
		slog.String("client", l.o.Client(r)),
		slog.String("method", w.method),
		slog.String("host", plain.Authority(w.host)),
		slog.String("target", l.target(w.target)),
		slog.String("proto", r.Proto),
		slog.Int("status", w.status),
		slog.Int64("bytes", w.bytes),
		slog.Float64("duration_ms", ms(now.Sub(w.start))),
		slog.Float64("ttfb_ms", ms(wait)),
	)
	if w.receipt.Route != "" {
		rec.AddAttrs(slog.String("route", w.receipt.Route))
	}
	if w.receipt.Outcome != 0 {
		rec.AddAttrs(w.receiptAttrs()...)
	}
	if id := w.requestID(r); id != "" {
		rec.AddAttrs(slog.String("request_id", id))
	}
	if w.broken {
		rec.AddAttrs(slog.Bool("broken", true))
	}
	if text := w.errorText(r); text != "" {
		rec.AddAttrs(slog.String("error", text))
	}
	_ = l.slog.Handle(context.Background(), rec) // an Output reports a failure
}

// errorText returns what went wrong, or "".
func (w *writer) errorText(r *http.Request) string {
	switch {
	case w.receipt.Err != nil:
		return w.receipt.Err.Error()
	case w.broken && r.Context().Err() != nil:
		return "the client has left"
	case w.broken:
		return "the answer was broken off"
	}
	return ""
}

// requestID returns the id that the gateway created or adopted.
func (w *writer) requestID(r *http.Request) string {
	if w.receipt.RequestID != "" {
		return w.receipt.RequestID
	}
	return r.Header.Get("X-Request-Id") // a hit
}

func (w *writer) receiptAttrs() []slog.Attr {
	rc := w.receipt
	attrs := []slog.Attr{slog.String("cache", rc.Outcome.String())}
	if rc.Forwarded != "" {
		attrs = append(attrs, slog.String("forwarded", rc.Forwarded))
	}
	if rc.UpstreamStatus != 0 {
		attrs = append(attrs, slog.Int("upstream_status", rc.UpstreamStatus))
	}
	if rc.Fallback != "" {
		attrs = append(attrs, slog.String("fallback", rc.Fallback), slog.String("fallback_reason", rc.FallbackReason))
	}
	if rc.Queued > 0 {
		attrs = append(attrs, slog.Float64("queued_ms", ms(rc.Queued)))
	}
	return attrs
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
