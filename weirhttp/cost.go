package weirhttp

import (
	"context"
	"io"
	"net/http"
	"strings"

	"github.com/weir-go/weir/internal/jsonnumber"
	"github.com/weir-go/weir/internal/responses"
	"github.com/weir-go/weir/internal/rfc9111"
	"github.com/weir-go/weir/internal/stated"
	"github.com/weir-go/weir/limit"
)

// A Cost sets how the cost of a call is found, in units of your choice such as tokens. The
// request gives an estimate, for Options.Budget, and the response gives the real cost. The zero Cost counts no
// cost. Units are whole numbers, at most limit.MaxUnits.
type Cost struct {
	// Units, the body and Field add up to the estimate, which is at least 1.
	Units int
	// BytesPerUnit is how many bytes of the request body cost a unit. 0 means that the
	// body costs nothing.
	BytesPerUnit int
	// Field is a JSON pointer (RFC 6901) to a number in the request body, such as
	// "/max_tokens". It is read if the body was read before admission, see
	// ClientLimits.ReadAhead; nothing waits for it. Empty means none.
	Field string
	// Default is used instead of Field if the body has no such number, is not JSON, or was
	// not read. 0 means that such a body adds nothing.
	Default int

	// Header is a response field with the number of units, such as "X-Cost". Empty means
	// none.
	Header string
	// Usage is a JSON pointer to the number of units in a response of type
	// application/json, or in the data of the last event of a text/event-stream that has
	// it, such as "/usage/total_tokens". It is read as the response passes, which is
	// neither held back nor changed. Requests ask for a response without an encoding
	// (Accept-Encoding: identity); one with a Content-Encoding is not read. Empty means
	// none.
	Usage string

	// Price is what a unit costs, in Currency, from 0 to 1,000,000: for Stats and consoles,
	// which show money next to units. It changes nothing else. 0 means that it is not known.
	Price float64
	// Currency is a code such as "EUR": three capitals. It is required with a Price.
	Currency string
}

// MaxUsage is how much of a response is read for Cost.Usage. In what comes after that, no
// usage is found, and the estimate stands.
const MaxUsage = 64 << 20

func (c Cost) check(check func(ok bool, field string, value any, bound string) bool, budget limit.Limiter, client *ClientBudget) {
	const pointer = `a JSON pointer such as "/usage/total_tokens", up to 16 names of 256 bytes`
	for _, n := range []struct {
		field string
		value int
	}{{"Units", c.Units}, {"BytesPerUnit", c.BytesPerUnit}, {"Default", c.Default}} {
		check(n.value >= 0 && n.value <= limit.MaxUnits, "Cost."+n.field, n.value, "from 0 to 1073741824")
	}
	for _, p := range []struct{ field, value string }{{"Field", c.Field}, {"Usage", c.Usage}} {
		_, err := jsonnumber.Parse(p.value)
		check(p.value == "" || err == nil, "Cost."+p.field, p.value, pointer)
	}
	check(c.Price >= 0 && c.Price <= 1e6, "Cost.Price", c.Price, "from 0 to 1000000")
	check(c.Price == 0 && c.Currency == "" || currency(c.Currency), "Cost.Currency", c.Currency, `three capitals such as "EUR", if there is a Price`)
	check(c.Default == 0 || c.Field != "", "Cost.Default", c.Default, "0 if no JSON field is read")
	check(budget == nil || c != Cost{}, "Budget", budget, "nil without a Cost")
	check(client == nil || c != Cost{}, "ClientBudget", "set", "nil without a Cost")
}

// currency reports whether s has the form of a code of ISO 4217.
func currency(s string) bool {
	for i := range len(s) {
		if s[i] < 'A' || s[i] > 'Z' {
			return false
		}
	}
	return len(s) == 3
}

// costs are what a Handler makes of its Cost.
type costs struct {
	Cost
	field, usage jsonnumber.Pointer
}

// newCosts returns nil for the zero Cost. c is valid.
func newCosts(c Cost) *costs {
	if c == (Cost{}) {
		return nil
	}
	p := &costs{Cost: c}
	p.field, _ = jsonnumber.Parse(c.Field)
	p.usage, _ = jsonnumber.Parse(c.Usage)
	return p
}

// estimate returns what a call for r should cost.
func (c *costs) estimate(r *http.Request) int {
	n := int64(c.Units)
	if c.BytesPerUnit > 0 && r.ContentLength > 0 {
		n += min((r.ContentLength-1)/int64(c.BytesPerUnit), limit.MaxUnits) + 1
	}
	if !c.field.IsZero() {
		n += int64(c.fieldOf(r))
	}
	return int(max(1, min(n, limit.MaxUnits)))
}

// readable returns r as it is forwarded: if the cost is read from the response, without an
// encoding that hides it. Otherwise a client would pay its estimate, and not what the call
// has cost, for the price of an Accept-Encoding. One that a signature may cover stays.
func (c *costs) readable(r *http.Request) *http.Request {
	const name, none = "Accept-Encoding", "identity"
	if c == nil || c.usage.IsZero() || len(r.Header[name]) == 1 && r.Header[name][0] == none || !rfc9111.MayChange(r.Header, r.URL.RawQuery, name) {
		return r
	}
	h := r.Header.Clone()
	h.Set(name, none)
	r = r.WithContext(r.Context()) // a copy
	r.Header = h
	return r
}

// fieldOf returns the number at Field, or Default.
func (c *costs) fieldOf(r *http.Request) int {
	body, ok := r.Body.(*readBody)
	if !ok {
		return c.Default
	}
	s := jsonnumber.NewScanner(c.field)
	if _, err := io.Copy(scan{s}, io.NewSectionReader(body, 0, body.Size())); err != nil {
		return c.Default
	}
	if n, ok := s.End(); ok {
		return min(n, limit.MaxUnits)
	}
	return c.Default
}

// A scan is a Scanner as a Writer.
type scan struct{ *jsonnumber.Scanner }

func (s scan) Write(p []byte) (int, error) {
	s.Scanner.Write(p)
	return len(p), nil
}

// A charge is what one call takes from the budget. It belongs to the goroutine that writes
// the response. A nil charge counts nothing.
type charge struct {
	h      *Handler
	permit limit.Permit
	bill   *bill // of the client that started the call
	units  int   // the estimate, then what the response has stated
	stated bool

	text   *jsonnumber.Scanner // at most one of these is not nil
	events *jsonnumber.Events
	left   int64 // of the response, that may be read
	ended  bool
}

// charge takes the estimate for r from the budget, waiting if necessary. It returns nil if
// no cost is counted.
func (h *Handler) charge(ctx context.Context, r *http.Request) (*charge, error) {
	if h.costs == nil {
		return nil, nil
	}
	c := &charge{h: h, units: h.costs.estimate(r)}
	if h.o.Budget == nil {
		return c, nil
	}
	var err error
	if c.permit, err = limit.AcquireN(ctx, h.o.Budget, c.units); err != nil {
		return nil, &overBudget{error: err, units: c.units}
	}
	return c, nil
}

// An overBudget is a refusal of the budget, or of the client's, with the estimate.
type overBudget struct {
	error
	units  int
	client bool
}

func (e *overBudget) Unwrap() error { return e.error }

// bills makes the client pay what the call costs.
func (c *charge) bills(p *bill) {
	if c != nil {
		c.bill = p
	}
}

// undo returns everything, for a call that was not made.
func (c *charge) undo() {
	if c != nil && !c.ended {
		c.ended = true
		c.permit.Release(limit.Unused)
		c.bill.undo()
	}
}

// head reads the response headers. A refusal costs nothing, unless it states a cost.
func (c *charge) head(status int, header http.Header) {
	if c == nil {
		return
	}
	if status >= 400 && status < 500 {
		c.settle(0)
		c.stated = false
	}
	if name := c.h.costs.Header; name != "" {
		if n, ok := stated.RoundedUp(header.Get(name)); ok {
			c.settle(n)
			return
		}
	}
	c.text, c.events, c.left = nil, nil, MaxUsage
	if coding := header.Get("Content-Encoding"); c.h.costs.usage.IsZero() || coding != "" && !strings.EqualFold(coding, "identity") {
		return
	}
	switch kind, _, _ := strings.Cut(strings.ToLower(header.Get("Content-Type")), ";"); {
	case isStream(header):
		c.events = jsonnumber.NewEvents(c.h.costs.usage)
	case strings.TrimSpace(kind) == "application/json", strings.HasSuffix(strings.TrimSpace(kind), "+json"):
		c.text = jsonnumber.NewScanner(c.h.costs.usage)
	}
}

// data reads a part of the body, before the client has it.
func (c *charge) data(p []byte) {
	if c == nil || c.text == nil && c.events == nil {
		return
	}
	if c.left -= int64(len(p)); c.left < 0 {
		c.text, c.events = nil, nil
		return
	}
	if c.text != nil {
		c.text.Write(p)
		if !c.text.Done() {
			return
		}
		if n, ok := c.text.End(); ok {
			c.settle(n)
		}
		c.text = nil
		return
	}
	if c.events.Write(p) {
		n, _ := c.events.End()
		c.settle(n)
	}
}

// settle sets what the call has cost.
func (c *charge) settle(n int) {
	n = min(n, limit.MaxUnits)
	if n != c.units || !c.stated {
		c.units, c.stated = n, true
		c.permit.Settle(n)
		c.bill.settle(n)
	}
}

// end is called when the call has ended.
func (c *charge) end(o limit.Outcome) {
	if c == nil || c.ended {
		return
	}
	c.ended = true
	c.h.count.costSpent.Add(uint64(c.units)) //nolint:gosec // never negative
	c.permit.Release(o)
	c.bill.end(c.units)
}

// finish is end for a call that ended with this status and err. A call that did not reach
// the origin costs nothing.
func (c *charge) finish(status int, err error) {
	if status == 0 && unreachable(err) {
		c.undo()
		return
	}
	c.end(outcome(status, err))
}

// cost returns what the call has cost.
func (c *charge) cost() int64 {
	if c == nil {
		return 0
	}
	return int64(c.units)
}

// avoided counts what s cost, which is served instead of a call.
func (h *Handler) avoided(s *responses.Stored) {
	if s.Cost > 0 {
		h.count.costHits.Add(uint64(s.Cost))
	}
}

// CostStats count units of Options.Cost. All are 0 without one.
type CostStats struct {
	Spent   uint64 `json:"spent"`   // units that calls cost: as the response states it, or else the estimate
	Hits    uint64 `json:"hits"`    // avoided by stored responses: what their call cost
	Joined  uint64 `json:"joined"`  // avoided by requests that were served by another's call
	Refused uint64 `json:"refused"` // the estimate of requests that Options.Budget rejected
	// RefusedClient is the estimate of requests that Options.ClientBudget rejected.
	RefusedClient uint64 `json:"refused_client"`

	// Price and Currency are those of Options.Cost: a unit costs that much.
	Price    float64 `json:"price,omitempty"`
	Currency string  `json:"currency,omitempty"`
}

// Avoided is what requests would have cost in addition to Spent.
func (s CostStats) Avoided() uint64 { return s.Hits + s.Joined }
