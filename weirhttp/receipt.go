package weirhttp

import (
	"net/http"
	"time"
)

// A Receipt tells what became of one request (H21). A [ReceiptWriter] gets it before the
// head is written, and again at the end of what was forwarded.
type Receipt struct {
	// Route is Options.Route of the Handler, or the name of a Gateway's route. A Gateway
	// sends a Receipt with nothing else before it asks the route.
	Route string
	// Outcome is how it was answered.
	Outcome Outcome
	// Forwarded says why it was not answered from the store: a fwd parameter of
	// RFC 9211 such as "uri-miss", "stale", "bypass"; empty on a hit.
	Forwarded string
	// Detail says more, such as why it was not stored. It is never built from
	// what clients or the origin sent.
	Detail string
	// Collapsed: the answer of a call that another request had started.
	Collapsed bool
	// Stored: the answer is kept.
	Stored bool
	// Status of the origin's answer, 0 without one.
	UpstreamStatus int
	// TTL is what is left of the freshness, negative for a stale answer.
	TTL time.Duration
	// Queued is how long it waited for admission.
	Queued time.Duration
	// Err is why it was refused, failed, or answered with a stale response.
	Err error
}

// An Outcome is how a request was answered.
type Outcome uint8

// The outcomes.
const (
	outcomeNone      Outcome = iota // not yet
	OutcomePass                     // passed on, as it concerns no cache
	OutcomeMiss                     // by a call of its own
	OutcomeJoined                   // by a call that another had started
	OutcomeHit                      // from the store, fresh
	OutcomeStale                    // from the store, stale
	OutcomeValidated                // from the store, after the origin said that it holds
	OutcomeRefused                  // not at all: a limit
	OutcomeFailed                   // not at all: the call failed
)

// String returns it in a word: "hit", "joined" and so on, "unknown" for none.
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

// A ReceiptWriter is a ResponseWriter that takes Receipts: that of an access log, or of
// metrics. SetReceipt may be called several times for a request; the last Receipt
// counts. A ReceiptWriter passes them on with the function [SetReceipt].
type ReceiptWriter interface {
	http.ResponseWriter
	SetReceipt(Receipt)
}

// SetReceipt passes r to the ReceiptWriter that w is or wraps (by Unwrap, as
// http.ResponseController has it). Without one it does nothing.
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

// report passes rec on for w.
func (h *Handler) report(w http.ResponseWriter, rec Receipt) {
	rec.Route = h.route
	SetReceipt(w, rec)
}
