package weirhttp

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/weir-go/weir/internal/alarm"
	"github.com/weir-go/weir/internal/slow"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/option"
)

// ErrSlowClient is in the error chain of requests whose client sent or read too
// slowly; see [ClientLimits]. The response is 408 if none of it was sent, otherwise
// it is broken off.
var ErrSlowClient = slow.ErrSlow

// ClientLimits bound how much slow clients can take from others (H24). The zero value
// means the defaults. A [Transport] ignores them: its client is the program.
type ClientLimits struct {
	// ReadAhead is the size up to which a request body is read before admission, so
	// that a slow client holds no permit. It applies only to bodies with a
	// Content-Length, and not to gRPC, to Upgrade, or to Expect (which net/http hides
	// over HTTP/2). 0 means 64 KiB, negative means none, at most 16 MiB.
	ReadAhead int64
	// ReadAheadMemory bounds the bodies that are read ahead, and those of reads
	// (Options.Reads) while they are in use, over all Handlers with the same Cache.
	// Memory is taken as the bytes arrive. If none is left, a request proceeds to
	// admission with what it has. The rest of its body is read while it holds a
	// permit, under MinRate and BlockedShare. 0 means 32 MiB, negative means none.
	ReadAheadMemory int64

	// MinRate is the minimum rate of a client, in bytes per second on average, while
	// weir waits for that client and for nothing else. Event streams, upgrades and
	// gRPC have no minimum, nor do responses from the store. 0 means 512, negative
	// means no minimum.
	MinRate int64
	// Grace is how long a client may be behind before it is cut off. A client that
	// was faster before has up to three times as long. 0 means 10 s, at most 10
	// minutes.
	Grace time.Duration

	// BlockedShare is the share of Options.Limiter's permits that may be held by
	// calls that wait for their client. If more are held while other requests are
	// queued for a permit, the slowest clients are cut off until the share is met.
	// Clients that move 128 KiB per second or more are never cut off. One permit may
	// always be blocked. 0 means 0.5; negative means no bound, as 1 does. It applies
	// to each part of a limit.All that is a Concurrency or an Adaptive, and to each
	// Handler separately; a [SharedLimiter] has one bound for all its Handlers.
	BlockedShare float64
}

// Defaults and bounds of ClientLimits.
const (
	DefaultReadAhead       = 64 << 10         // of ClientLimits.ReadAhead, in bytes
	DefaultReadAheadMemory = 32 << 20         // of ClientLimits.ReadAheadMemory, in bytes
	DefaultMinRate         = 512              // of ClientLimits.MinRate, in bytes per second
	DefaultGrace           = 10 * time.Second // of ClientLimits.Grace
	DefaultBlockedShare    = 0.5              // of ClientLimits.BlockedShare
	maxReadAhead           = 16 << 20
	maxGrace               = 10 * time.Minute
)

// Validate returns all faults of c at once, joined by errors.Join, each an
// *OptionError; or nil.
func (c ClientLimits) Validate() error {
	f := option.Faults{Package: "weirhttp"}
	c.check(f.Check)
	return f.Err()
}

func (c ClientLimits) check(check func(ok bool, field string, value any, bound string) bool) {
	check(c.ReadAhead <= maxReadAhead, "Clients.ReadAhead", c.ReadAhead, "at most 16 MiB (16777216)")
	check(c.Grace >= 0 && c.Grace <= maxGrace, "Clients.Grace", c.Grace, "from 0 to 10m")
	check(c.BlockedShare <= 1, "Clients.BlockedShare", c.BlockedShare, "at most 1")
}

func (c ClientLimits) withDefaults() ClientLimits {
	c.ReadAhead = cmp.Or(c.ReadAhead, DefaultReadAhead)
	c.ReadAheadMemory = cmp.Or(c.ReadAheadMemory, DefaultReadAheadMemory)
	c.MinRate = cmp.Or(c.MinRate, DefaultMinRate)
	c.Grace = cmp.Or(c.Grace, DefaultGrace)
	c.BlockedShare = cmp.Or(c.BlockedShare, DefaultBlockedShare)
	return c
}

// noClientLimits are for a Transport.
var noClientLimits = ClientLimits{ReadAhead: -1, MinRate: -1, BlockedShare: 1}

// terms returns the rate that a client has to keep up.
func (c ClientLimits) terms() slow.Terms { return slow.Terms{MinRate: c.MinRate, Grace: c.Grace} }

// crowdsOf returns a Crowd for each part of l that reports how many permits it has.
func crowdsOf(l limit.Limiter, share float64) []*slow.Crowd {
	var crowds []*slow.Crowd
	for _, part := range limit.Parts(l) {
		if shared, ok := part.(*SharedLimiter); ok {
			crowds = append(crowds, shared.crowd)
		} else if g := gaugeOf(part); g != nil {
			crowds = append(crowds, slow.NewCrowd(g, share))
		}
	}
	return crowds
}

// gaugeOf returns a function that reads the permits of l, or nil if l does not report
// them.
func gaugeOf(l limit.Limiter) slow.Gauge {
	switch l := l.(type) {
	case interface{ Stats() limit.ConcurrencyStats }:
		return func() (int, int, int) {
			s := l.Stats()
			return s.Limit, s.InUse, s.Queued
		}
	case interface{ Stats() limit.AdaptiveStats }:
		return func() (int, int, int) {
			s := l.Stats()
			return s.Limit, s.InUse, s.Queued
		}
	}
	return nil
}

// A SharedLimiter is a Limiter for several Handlers, with one bound on the permits
// that slow clients block. A Limiter that is shared without it has that bound in each
// Handler separately. It is safe for concurrent use.
type SharedLimiter struct {
	limit.Limiter
	crowd *slow.Crowd
}

// NewSharedLimiter returns a SharedLimiter of l. l needs a method Stats like that of
// [limit.Concurrency] or [limit.Adaptive]; for another Limiter there is no bound.
// share is like [ClientLimits.BlockedShare], and replaces that of the Handlers.
func NewSharedLimiter(l limit.Limiter, share float64) *SharedLimiter {
	g := gaugeOf(l)
	if g == nil {
		g = func() (none, inUse, queued int) { return }
	}
	return &SharedLimiter{Limiter: l, crowd: slow.NewCrowd(g, cmp.Or(share, DefaultBlockedShare))}
}

// SetBlockedShare changes the share. It can be called while requests run.
func (l *SharedLimiter) SetBlockedShare(share float64) {
	l.crowd.SetShare(cmp.Or(share, DefaultBlockedShare))
}

// Blocked returns how many requests currently hold a permit and wait for their
// client.
func (l *SharedLimiter) Blocked() int { return l.crowd.Blocked() }

// press is called before each acquisition from Options.Limiter.
func (h *Handler) press() {
	for _, c := range h.crowds {
		c.Press()
	}
}

// blocked is Stats.Slow.Blocked.
func (h *Handler) blocked() int {
	n := 0
	for _, c := range h.crowds {
		n = max(n, c.Blocked())
	}
	return n
}

var past = time.Unix(1, 0)

// cutter returns a function that cuts off the client of w: it cancels the call,
// unless cancel is nil, and makes reads and writes that wait for the client return.
func (h *Handler) cutter(w http.ResponseWriter, cancel context.CancelCauseFunc) func(err error, sends, reads bool) {
	return func(err error, sends, reads bool) {
		h.countCut(err)
		if cancel != nil {
			cancel(err)
		}
		conn := http.NewResponseController(w)
		if sends {
			_ = conn.SetReadDeadline(past) // if deadlines are not supported, the client is cut off at its next byte
		}
		if reads {
			_ = conn.SetWriteDeadline(past) // as above
		}
	}
}

func (h *Handler) countCut(err error) {
	switch err { //nolint:errorlint // they are passed on as they are
	case slow.ErrSending:
		h.count.cutSending.Add(1)
	case slow.ErrReading:
		h.count.cutReading.Add(1)
	default:
		h.count.cutBlocked.Add(1)
	}
}

// pacedFrom is how much of a shared body a client has taken before its rate is
// checked: smaller bodies fit into the buffers below us.
const pacedFrom = 64 << 10

// A pacer writes a shared body to one of the clients that follow it. No permit is
// held meanwhile.
type pacer struct {
	c      *call
	sent   int64
	client *slow.Client // nil before pacedFrom
	alarm  alarm.Alarm  // of client
}

func (p *pacer) write(b []byte) error {
	if p.client == nil {
		if p.sent += int64(len(b)); p.sent > pacedFrom && p.c.h.o.Clients.MinRate > 0 && !p.c.endless {
			p.client = new(slow.Client)
			p.client.Start(p.c.h.o.Clients.terms(), &p.alarm, p.c.h.cutter(p.c.w, nil))
		}
	}
	if p.client == nil {
		_, err := p.c.w.Write(b)
		return err
	}
	p.client.Begin(slow.Down, len(b))
	n, err := p.c.w.Write(b)
	p.client.End(slow.Down, n)
	if cut := p.client.Err(); err != nil && cut != nil {
		return cut
	}
	return err
}

func (p *pacer) close() {
	if p.client != nil {
		p.client.Close()
		p.alarm.Stop()
	}
}
