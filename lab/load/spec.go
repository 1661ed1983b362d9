package load

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strings"
	"time"
)

// Modes of a [Spec].
const (
	Closed = "closed" // the default
	Open   = "open"
)

// Picks of a [Spec]: how a request gets its URL.
const (
	Turn   = "turn"   // the default: in turn, by the request's number
	Random = "random" // all equally likely
	Zipf   = "zipf"   // the r-th with weight 1/r^Skew
)

// Defaults of a [Spec].
const (
	DefaultTimeout     = 10 * time.Second
	DefaultMaxInFlight = 4096
	DefaultEveryMS     = 100
)

// Bounds of a [Spec].
const (
	maxClients = 20_000    // a host has some 28,000 ports for connections to one address
	maxRate    = 1_000_000 // per second
	maxTime    = 24 * time.Hour
	maxURLs    = 1_000_000
)

// A Spec describes a load. Its times are nanoseconds in JSON.
type Spec struct {
	// URLs are the targets of requests: at least one, http or https.
	URLs []string
	// Pick selects the URL of a request: Turn, Random or Zipf.
	Pick string
	// Skew is Zipf's exponent, 0 or more; it may be below 1.
	Skew float64
	// Seed varies the picks of Random and Zipf; equal specs pick equally.
	Seed uint64
	// Header is sent with each request.
	Header map[string]string
	// ExpectBody is text that the body of a successful response must contain. Empty: any body
	// is good.
	ExpectBody string

	// Mode is Closed or Open.
	Mode string
	// Requests is the number of requests to send. 0: only Duration ends the load.
	Requests int
	// Duration is how long requests are sent; those in flight then finish. 0: only
	// Requests ends the load. With both, whichever comes first.
	Duration time.Duration

	// Clients is the number of clients in a closed loop.
	Clients int
	// NoKeepAlive opens a connection for each request.
	NoKeepAlive bool
	// Connected makes the clients of a closed loop open their connections before the
	// load begins, to measure a crowd that is already connected.
	Connected bool

	// Rate is the number of requests per second of an open loop.
	Rate float64
	// MaxInFlight bounds the requests in flight in an open loop. Requests beyond it
	// start late; their latency counts from when they were due. 0 means
	// DefaultMaxInFlight.
	MaxInFlight int

	// Timeout is how long a request may take after it is sent; beyond that it fails.
	// 0 means DefaultTimeout.
	Timeout time.Duration

	// Warmup and WarmupRequests bound a load of the same kind that is sent first and
	// not counted. 0 and 0: none. With both, whichever comes first.
	Warmup         time.Duration
	WarmupRequests int

	// EveryMS is the width of the intervals of the result's series, in
	// milliseconds. 0 means DefaultEveryMS.
	EveryMS int
}

// validate returns all faults at once.
func (s Spec) validate() error {
	var f faults
	f.check(len(s.URLs) >= 1 && len(s.URLs) <= maxURLs, "URLs", fmt.Sprintf("%d of them", len(s.URLs)), fmt.Sprintf("1 to %d", maxURLs))
	for i, u := range s.URLs {
		p, err := url.Parse(u)
		ok := err == nil && (p.Scheme == "http" || p.Scheme == "https") && p.Host != ""
		f.check(ok, fmt.Sprintf("URLs[%d]", i), fmt.Sprintf("%q", u), "an http or https URL with a host")
	}
	pick, mode := cmp.Or(s.Pick, Turn), cmp.Or(s.Mode, Closed)
	f.check(pick == Turn || pick == Random || pick == Zipf, "Pick", fmt.Sprintf("%q", s.Pick), "turn, random or zipf")
	f.check(s.Skew >= 0 && !math.IsInf(s.Skew, 1), "Skew", s.Skew, "0 or more, and finite")
	for name, value := range s.Header {
		f.check(name != "" && !strings.ContainsAny(name+value, "\r\n"), "Header", fmt.Sprintf("%q: %q", name, value), "named, and on one line")
	}
	f.check(mode == Closed || mode == Open, "Mode", fmt.Sprintf("%q", s.Mode), "closed or open")
	if mode == Open {
		f.check(s.Rate > 0 && s.Rate <= maxRate, "Rate", s.Rate, fmt.Sprintf("above 0 and at most %d in an open loop", maxRate))
		f.check(s.Clients == 0, "Clients", s.Clients, "0 in an open loop")
		f.check(!s.Connected, "Connected", s.Connected, "false in an open loop")
	} else {
		f.check(s.Clients >= 1 && s.Clients <= maxClients, "Clients", s.Clients, fmt.Sprintf("1 to %d in a closed loop", maxClients))
		f.check(s.Rate == 0, "Rate", s.Rate, "0 in a closed loop")
	}
	f.check(s.Requests >= 0, "Requests", s.Requests, "0 or more")
	f.check(s.Requests != 0 || s.Duration != 0, "Duration", s.Duration, "above 0 without Requests")
	f.check(s.MaxInFlight >= 0 && s.MaxInFlight <= maxClients, "MaxInFlight", s.MaxInFlight, fmt.Sprintf("0 (the default) to %d", maxClients))
	f.time("Duration", s.Duration)
	f.time("Timeout", s.Timeout)
	f.time("Warmup", s.Warmup)
	f.check(s.WarmupRequests >= 0, "WarmupRequests", s.WarmupRequests, "0 or more")
	f.check(s.EveryMS >= 0, "EveryMS", s.EveryMS, "0 (the default) or more")
	return errors.Join(f...)
}

// withDefaults returns s with the defaults for 0 and the empty string.
func (s Spec) withDefaults() Spec {
	s.Pick = cmp.Or(s.Pick, Turn)
	s.Mode = cmp.Or(s.Mode, Closed)
	s.MaxInFlight = cmp.Or(s.MaxInFlight, DefaultMaxInFlight)
	s.Timeout = cmp.Or(s.Timeout, DefaultTimeout)
	s.EveryMS = cmp.Or(s.EveryMS, DefaultEveryMS)
	return s
}

// String describes the load in words.
func (s Spec) String() string {
	s = s.withDefaults()
	var parts []string
	if s.Mode == Open {
		parts = append(parts, fmt.Sprintf("%g requests/s, open loop", s.Rate))
	} else {
		parts = append(parts, counted(s.Clients, "client"))
	}
	if s.NoKeepAlive {
		parts = append(parts, "without keep-alive")
	}
	if s.Connected {
		parts = append(parts, "connected before")
	}
	if s.Requests > 0 {
		parts = append(parts, counted(s.Requests, "request"))
	}
	if s.Duration > 0 {
		parts = append(parts, s.Duration.String())
	}
	switch {
	case len(s.URLs) < 2:
	case s.Pick == Zipf:
		parts = append(parts, fmt.Sprintf("%d URLs, Zipf %g", len(s.URLs), s.Skew))
	case s.Pick == Random:
		parts = append(parts, fmt.Sprintf("%d URLs at random", len(s.URLs)))
	default:
		parts = append(parts, fmt.Sprintf("%d URLs in turn", len(s.URLs)))
	}
	return strings.Join(parts, ", ")
}

func counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// A SpecError is one fault of a [Spec].
type SpecError struct {
	Field string // such as "Clients"
	Value any
	Bound string // the permitted values
}

func (e *SpecError) Error() string {
	return fmt.Sprintf("load: Spec.%s is %v, must be %s", e.Field, e.Value, e.Bound)
}

// faults collects faults.
type faults []error

func (f *faults) check(ok bool, field string, value any, bound string) {
	if !ok {
		*f = append(*f, &SpecError{Field: field, Value: value, Bound: bound})
	}
}

func (f *faults) time(field string, d time.Duration) {
	f.check(d >= 0 && d <= maxTime, field, d, fmt.Sprintf("0 to %v", maxTime))
}
