package weirhttp

import (
	"fmt"
	"math/bits"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/fleet/quota"
	"github.com/weir-go/weir/internal/buckets"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/option"
)

// ClientLimiterOptions configure a ClientLimiter.
type ClientLimiterOptions struct {
	// Rate is how many requests a client may send per Per, from 1 to 1,000,000,000.
	Rate int
	// Per is the period of Rate. 0 means one second, at most 366 days.
	Per time.Duration
	// Burst is how many requests may arrive at once. 0 means Rate.
	Burst int
	// Key returns the key of the client that sends a request. Clients with the same
	// key share a rate, and those with an empty key are always admitted. nil means
	// ByAddress(Client). Key is called for every request, must be safe for concurrent
	// use, and should have no side effects. Only a 128-bit hash of a key is
	// remembered.
	Key func(*http.Request) string
	// Keys is how many clients are remembered. 0 means 100,000, at most 2^30. Each
	// takes about 120 bytes, however long its key. A client is forgotten in favor of
	// a new one only when its bucket is full again. While there is no place for a new
	// client, it shares a bucket with the other new clients of its address. As many
	// addresses are remembered in addition, at least 1024.
	Keys int
	// Client returns the address for that, as in ByAddress. nil means the address of
	// the connection, which is also used if Client returns no valid address. Behind a
	// proxy, set the Client that Key uses.
	Client Client
	// Name is the policy's name in the RateLimit fields and in errors. It consists of
	// printable ASCII. Empty means "default".
	Name string
	// Fleet makes the instances count together. Without its Meter each instance
	// counts alone.
	Fleet ClientLimiterFleet
}

// ClientLimiterFleet makes the ClientLimiters of several instances enforce one Rate
// for each client; see quota.KeyedLimiter.
type ClientLimiterFleet struct {
	// Meter is where they count, such as the fleet's Tier. nil means separate counts.
	Meter fleet.Meter
	// Namespace separates users of one Meter. ClientLimiters with the same Namespace
	// and the same Name count together. Empty means "http".
	Namespace string
	// OnFailure decides what happens while the Meter is unreachable. It is required.
	// With quota.FailClosed clients get 503.
	OnFailure quota.FailureMode
	// Instances is the maximum number of instances, for quota.FailLocalShare, where
	// it is required: from 1 to 10,000.
	Instances int
}

const (
	maxRate = 1_000_000_000
	maxPer  = 366 * 24 * time.Hour
	maxKeys = 1 << 30

	// minShares is the minimum number of addresses that are remembered, besides the
	// keys.
	minShares = 1024

	maxInt = 999_999_999_999_999 // of a structured field, RFC 9651 section 3.3.1
)

// validate returns all faults at once.
func (o ClientLimiterOptions) validate() error {
	f := option.Faults{Package: "weirhttp", Prefix: "ClientLimiterOptions."}
	f.Check(o.Rate >= 1 && o.Rate <= maxRate, "Rate", o.Rate, "from 1 to 1000000000")
	f.Check(o.Per >= 0 && o.Per <= maxPer, "Per", o.Per, "from 0 to 366 days")
	f.Check(o.Burst >= 0, "Burst", o.Burst, "at least 0")
	f.Check(o.Keys >= 0 && o.Keys <= maxKeys, "Keys", o.Keys, "from 0 to 1073741824")
	f.Check(printable(o.Name), "Name", strconv.Quote(o.Name), "printable ASCII")
	if f.Err() == nil && o.Fleet.Meter != nil {
		_, err := quota.NewKeyedLimiter(o.Fleet.Meter, o.keyedOptions())
		addKeyed(&f, err)
	}
	if f.Err() == nil {
		// Only here are the other options known to be valid.
		o = o.withDefaults()
		most := buckets.MostBurst(int64(o.Per), int64(o.Rate))
		f.Check(o.Burst <= most, "Burst", o.Burst, fmt.Sprintf("at most %d with that Rate and Per", most))
	}
	return f.Err()
}

// withDefaults returns o with the defaults set.
func (o ClientLimiterOptions) withDefaults() ClientLimiterOptions {
	if o.Per == 0 {
		o.Per = time.Second
	}
	if o.Burst == 0 {
		o.Burst = o.Rate
	}
	if o.Key == nil {
		o.Key = ByAddress(o.Client)
	}
	if o.Keys == 0 {
		o.Keys = 100_000
	}
	if o.Name == "" {
		o.Name = "default"
	}
	return o
}

// meter returns the meter of o, whose defaults are set.
func (o ClientLimiterOptions) meter() buckets.Meter {
	return buckets.NewMeter(int64(o.Per), int64(o.Rate), o.Burst, 0)
}

// A ClientLimiter rejects clients that send too many requests (H13): 429, with
// Retry-After and the RateLimit fields. It stands in front of the cache, so that a
// client is rejected only for the requests that it has sent itself.
//
// Each client has a token bucket. A bucket that is full again is forgotten, because a
// new one would be no different. A bucket that is not full is kept: made-up clients
// do not evict a client that has spent tokens. While all places are taken, the new
// clients of an address share one bucket. So an address that makes up clients uses up
// its own bucket, and new clients from other addresses are still admitted. Such a
// flood takes a bounded amount of memory, and a bounded time for each request.
//
// Two kinds of bucket can be forgotten too early, the least recently seen first:
// those of more than Keys addresses (1024 at least) that share buckets at the same
// time, and those of clients on connections without an address, such as Unix sockets.
//
// Create one with [NewClientLimiter]; the zero ClientLimiter is not usable. It is
// safe for concurrent use, and has no goroutine to close.
type ClientLimiter struct {
	key    func(*http.Request) string
	name   string
	quoted string                 // name as a string of RFC 9651
	policy atomic.Pointer[string] // the RateLimit-Policy field; Update replaces it
	start  time.Time
	table  *buckets.Table                // nil in a fleet
	shares *buckets.Table                // by address, for clients that do not fit into table
	client [2]func(*http.Request) string // return an address; the first that is not empty counts
	shared *quota.KeyedLimiter           // nil without a fleet
}

// NewClientLimiter returns a ClientLimiter. The error joins an [*OptionError] for
// every option that is out of bounds.
func NewClientLimiter(o ClientLimiterOptions) (*ClientLimiter, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	l := &ClientLimiter{
		key:    o.Key,
		name:   o.Name,
		quoted: quoteField(o.Name),
		start:  time.Now(),
	}
	if o.Fleet.Meter != nil {
		var err error
		if l.shared, err = quota.NewKeyedLimiter(o.Fleet.Meter, o.keyedOptions()); err != nil {
			return nil, err
		}
	} else {
		l.table = buckets.NewTable(o.Keys, o.meter())
		l.shares = buckets.NewTable(max(o.Keys, minShares), o.meter())
		l.client = [2]func(*http.Request) string{ByAddress(o.Client), ByAddress(nil)}
	}
	l.setPolicy(o)
	return l, nil
}

func (l *ClientLimiter) setPolicy(o ClientLimiterOptions) {
	q, w := rateWindow(o.Rate, o.Per)
	policy := fmt.Sprintf("%s;q=%d;w=%d", l.quoted, q, w)
	l.policy.Store(&policy)
}

// Update changes the Rate, Per, Burst and Keys of l, and OnFailure and Instances of
// its Fleet, with the defaults and bounds of NewClientLimiter. The rest stays: Name
// and Fleet.Namespace must be the same, Fleet.Meter must be nil if and only if it was
// nil, and Key and Client are ignored. Tokens that a client has spent stay spent
// under the new Burst; in a fleet see [quota.KeyedLimiter.Update].
func (l *ClientLimiter) Update(o ClientLimiterOptions) error {
	f := option.Faults{Package: "weirhttp", Prefix: "ClientLimiterOptions."}
	f.Check(o.withDefaults().Name == l.name, "Name", strconv.Quote(o.Name), "the one it was made with")
	f.Check((o.Fleet.Meter != nil) == (l.shared != nil), "Fleet.Meter", o.Fleet.Meter, "nil if it was, else not")
	f.Add(o.validate())
	if f.Err() == nil && l.shared != nil {
		addKeyed(&f, l.shared.Update(o.keyedOptions()))
	}
	if err := f.Err(); err != nil {
		return err
	}
	o = o.withDefaults()
	if l.shared == nil {
		now := time.Since(l.start)
		l.table.Update(o.Keys, o.meter(), now)
		l.shares.Update(max(o.Keys, minShares), o.meter(), now)
	}
	l.setPolicy(o)
	return nil
}

// Admit returns nil if it admits r. Otherwise it returns a *limit.Error with Reason
// limit.RateExceeded and the exact time until a request of this client would be
// admitted. A rejected request costs its client nothing. Admit affects only the
// client's bucket, so a program may also call it only to measure a rate.
//
// If h is not nil, Admit adds the RateLimit and RateLimit-Policy fields
// (draft-ietf-httpapi-ratelimit-headers-11) to it, whether r is admitted or not, so
// that a client can see its remaining quota before it is rejected. They are for this
// client alone, and must not be stored with the response. r is what is left of the
// burst, and t the seconds in which as much comes back, so that a client that spreads
// r requests over t keeps to the rate. If nothing is left, t is the time until the
// next request would be admitted, rounded up. q and w are the rate; if Per is not in
// whole seconds, it is converted to the next whole second. A client with an empty key
// gets no fields.
//
// In a fleet, the remaining tokens of a client are not known, so there is no
// RateLimit, and RetryAfter is when it is worth trying again. While the Meter is
// unreachable, the error with quota.FailClosed matches fleet.ErrUnavailable.
func (l *ClientLimiter) Admit(r *http.Request, h http.Header) error {
	key := l.key(r)
	if key == "" {
		return nil
	}
	if l.shared != nil {
		if h != nil {
			h.Add("RateLimit-Policy", *l.policy.Load())
		}
		return l.shared.Allow(r.Context(), key)
	}
	left, wait, ok := l.take(r, key)
	if h != nil {
		h.Add("RateLimit-Policy", *l.policy.Load())
		h.Add("RateLimit", l.left(left, wait))
	}
	if ok {
		return nil
	}
	return &limit.Error{Limiter: l.name, Reason: limit.RateExceeded, RetryAfter: wait}
}

// Wrap returns a handler that calls next with the requests that l admits, and responds to
// the others as [ClientError] does: 429 with Retry-After. It limits clients in front of
// any handler, and has the signature that routers expect:
//
//	router.Use(clients.Wrap)
//
// A [Handler] with l in its Options needs no Wrap: a request would spend two tokens. Wrap
// panics if next is nil.
func (l *ClientLimiter) Wrap(next http.Handler) http.Handler {
	if call, isFunc := next.(http.HandlerFunc); next == nil || isFunc && call == nil {
		panic("weirhttp: ClientLimiter.Wrap: next is nil")
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := l.Admit(r, w.Header()); err != nil {
			ClientError(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// take takes a token out of the bucket of key, or out of the bucket of its address if
// there is no place for key. A client without an address replaces the least recently
// seen one instead.
func (l *ClientLimiter) take(r *http.Request, key string) (left int64, wait time.Duration, ok bool) {
	now := time.Since(l.start)
	left, wait, ok, room := l.table.Claim(key, now, false)
	if room {
		return left, wait, ok
	}
	for _, client := range l.client {
		if address := client(r); address != "" {
			return l.shares.Take(address, now)
		}
	}
	return l.table.Take(key, now)
}

// left formats the RateLimit field.
func (l *ClientLimiter) left(left int64, wait time.Duration) string {
	t := int64((wait + time.Second - 1) / time.Second)
	b := make([]byte, 0, len(l.quoted)+32)
	b = append(b, l.quoted...)
	b = append(b, ";r="...)
	b = strconv.AppendInt(b, min(left, maxInt), 10)
	b = append(b, ";t="...)
	b = strconv.AppendInt(b, min(t, maxInt), 10)
	return string(b)
}

// rateWindow returns the rate as requests in a window of whole seconds, rounded so that it
// does not promise too many.
func rateWindow(rate int, per time.Duration) (q, w uint64) {
	w = uint64((per + time.Second - 1) / time.Second)
	hi, lo := bits.Mul64(uint64(rate), w*uint64(time.Second))
	q, _ = bits.Div64(hi, lo, uint64(per)) // at most rate seconds' worth: no overflow
	return min(q, maxInt), w
}

// quoteField returns s, of printable ASCII, as a string of RFC 9651 section 3.3.3.
func quoteField(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
