// Package keysctl is what operators see of calls with an Idempotency-Key, and do about
// those whose outcome is unknown: the contents of an admin listener's /idempotency, for
// the listener and for the command that reads it.
package keysctl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/weir-go/weir/app/figures"
	"github.com/weir-go/weir/app/jobsctl"
	"github.com/weir-go/weir/once"
	"github.com/weir-go/weir/plain"
)

// MaxUnknown is how many unknown calls are listed.
const MaxUnknown = 1000

// MinID is how many characters of an ID are enough to name it.
const MinID = 6

// path is where the admin listener has the keys.
const path = "/idempotency"

// A Page is the state of the keys.
type Page struct {
	once.Stats
	// Unknown are the calls with an unknown outcome, the oldest first, at most MaxUnknown.
	Unknown []Call `json:"unknown"`
}

// A Call is one whose outcome is unknown.
type Call struct {
	ID     string    `json:"id"`
	Route  string    `json:"route"`
	Call   string    `json:"call"` // method and path
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until"` // when it is forgotten
	Reason string    `json:"reason"`
}

// A Verdict is what an operator has found out about a call.
type Verdict string

// The verdicts.
const (
	Done    Verdict = "done"     // it has taken effect: it never runs again
	NotDone Verdict = "not_done" // it has not: the next request with its key makes it
)

// An Order settles a call.
type Order struct {
	ID     string  `json:"id"`
	Settle Verdict `json:"settle"`
}

// Check returns an error if o is not complete.
func (o Order) Check() error {
	if o.Settle != Done && o.Settle != NotDone {
		return fmt.Errorf(`"settle" is %q; want "done" or "not_done"`, o.Settle)
	}
	_, err := once.ParseDigest(o.ID)
	return err
}

// A Settled is the response to an Order.
type Settled struct {
	ID      string  `json:"id"`
	Settled Verdict `json:"settled"`
}

// Read returns the state of c.
func Read(ctx context.Context, c *once.Claims) (Page, error) {
	all, err := c.Unknown(ctx, MaxUnknown)
	if err != nil {
		return Page{}, err
	}
	p := Page{Stats: c.Stats(), Unknown: []Call{}} // not null in JSON
	for _, u := range all {
		p.Unknown = append(p.Unknown, Call{ID: u.ID.String(), Route: u.Route, Call: u.Call, Since: u.Since, Until: u.Expires, Reason: u.Reason})
	}
	slices.SortFunc(p.Unknown, func(a, b Call) int { return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.ID, b.ID)) })
	return p, nil
}

// Fetch returns the state of a running proxy.
func Fetch(ctx context.Context, at jobsctl.AdminOptions) (p Page, err error) {
	err = jobsctl.Ask(ctx, at, http.MethodGet, path, nil, &p)
	return p, err
}

// Settle settles a call of a running proxy.
func Settle(ctx context.Context, at jobsctl.AdminOptions, o Order) (s Settled, err error) {
	err = jobsctl.Ask(ctx, at, http.MethodPost, path, o, &s)
	return s, err
}

// Pick returns the calls of p that ids name, each completely or by its first characters,
// without duplicates. The error names the others.
func Pick(p Page, ids []string) (found []Call, err error) {
	var faults []error
	for _, id := range ids {
		var fit []Call
		for _, c := range p.Unknown {
			if strings.HasPrefix(c.ID, strings.ToLower(id)) {
				fit = append(fit, c)
			}
		}
		switch {
		case len(id) < MinID:
			faults = append(faults, fmt.Errorf("%q is too short; want at least %d characters of an ID", id, MinID))
		case len(fit) == 0:
			faults = append(faults, fmt.Errorf("no call with an unknown outcome has the ID %s; it may be settled, or expired", id))
		case len(fit) > 1:
			faults = append(faults, fmt.Errorf("%d calls have an ID that begins with %s; want more characters of it", len(fit), id))
		case !slices.Contains(found, fit[0]):
			found = append(found, fit[0])
		}
	}
	return found, errors.Join(faults...)
}

// shortID is how many characters of an ID a terminal shows.
const shortID = 12

// Write writes p as a table, one line for each call.
func Write(w io.Writer, p Page, s jobsctl.Style) error {
	text := fmt.Sprintf("No call has an unknown outcome. %s of %s keys are in use.\n", figures.Count(int64(p.Usage.Keys)), figures.Count(int64(p.Usage.MaxKeys)))
	if len(p.Unknown) > 0 {
		var rows [][]string
		for _, c := range p.Unknown {
			id := c.ID
			if s.Width > 0 {
				id = id[:min(len(id), shortID)]
			}
			rows = append(rows, []string{plain.Line(id), plain.Line(c.Route), s.Since(c.Since), s.Until(c.Until), plain.Line(c.Call), plain.Line(c.Reason)})
		}
		text = s.Table([]string{"id", "route", "age", "left", "call", "reason"}, rows)
	}
	if left := p.Stats.Unknown - len(p.Unknown); left > 0 && len(p.Unknown) == MaxUnknown {
		text += fmt.Sprintf("%s more are not shown.\n", figures.Count(int64(left)))
	}
	_, err := io.WriteString(w, text)
	return err
}
