package weirhttp

import (
	"net/http"
	"time"
)

// A Receipt describes the outcome of one request (H21). A [ReceiptWriter] gets it
// before the headers are written, and again at the end of a forwarded response.
type Receipt struct {
	// Route is Options.Route of the Handler, or the name of a Gateway's route. A
	// Gateway sends a Receipt with only Route set before it calls the route.
	Route string
	// Outcome is where the response came from.
	Outcome Outcome
	// Forwarded is why the response did not come from the store: a fwd parameter of
	// RFC 9211 such as "uri-miss", "stale", "bypass"; empty on a hit.
	Forwarded string
	// Detail gives more detail, such as why the response was not stored. It is never
	// built from what clients or the origin sent.
	Detail string
	// Collapsed: the response comes from a call that another request had started.
	Collapsed bool
	// Stored: the response is stored.
	Stored bool
	// UpstreamStatus is the status of the origin's response, 0 without one.
	UpstreamStatus int
	// TTL is the remaining freshness, negative for a stale response.
	TTL time.Duration
	// Fallback names what has responded instead of the route's own source, and FallbackReason
	// says why (FallbackCall). Both are empty otherwise.
	Fallback, FallbackReason string
	// Queued is how long it waited for admission.
	Queued time.Duration
	// RequestID is the ID of the request, see Options.RequestID. It is empty for a hit.
	RequestID string
	// Err is why the request was rejected, failed, or got a stale response.
	Err error
}

// An Outcome is where the response to a request came from.
type Outcome uint8

// The outcomes.
const (
	outcomeNone      Outcome = iota // not yet
	OutcomePass                     // forwarded, bypassing the cache
	OutcomeMiss                     // from its own call
	OutcomeJoined                   // from a call that another request had started
	OutcomeHit                      // from the store, fresh
	OutcomeStale                    // from the store, stale
	OutcomeValidated                // from the store, after the origin validated it
	OutcomeRefused                  // rejected by a limit
	OutcomeFailed                   // the call failed
)

// String returns the outcome as a word: "hit", "joined" and so on, "unknown" for
// none.
func (o Outcome) String() string {
	switch o {
	case OutcomePass:
		return "pass"
	case OutcomeMiss:
		return "miss"
	case OutcomeJoined:
		return "joined"
	case OutcomeHit:
		return "hit"
	case OutcomeStale:
		return "stale"
	case OutcomeValidated:
		return "validated"
	case OutcomeRefused:
		return "refused"
	case OutcomeFailed:
		return "failed"
	}
	return "unknown"
}

// A ReceiptWriter is a ResponseWriter that receives Receipts, for example for an
// access log or for metrics. SetReceipt may be called several times for a request;
// the last Receipt counts. A ReceiptWriter passes Receipts on with the function
// [SetReceipt].
type ReceiptWriter interface {
	http.ResponseWriter
	SetReceipt(Receipt)
}

// SetReceipt passes r to the ReceiptWriter that w is or wraps (by Unwrap, as in
// http.ResponseController). Without one it does nothing.
func SetReceipt(w http.ResponseWriter, r Receipt) {
	for {
		switch t := w.(type) {
		case ReceiptWriter:
			t.SetReceipt(r)
			return
		case interface{ Unwrap() http.ResponseWriter }:
			w = t.Unwrap()
		default:
			return
		}
	}
}

// report passes rec to the ReceiptWriter of w.
func (h *Handler) report(w http.ResponseWriter, rec Receipt) {
	rec.Route = h.route
	SetReceipt(w, rec)
}
