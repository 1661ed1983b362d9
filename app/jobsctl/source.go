// Package jobsctl looks after jobs from outside of the programs that submit
// them and work on them: it lists, shows, retries, cancels and drops them, at
// the admin listener of a proxy or at the NATS servers that keep them, and
// writes what it finds for people and for programs.
package jobsctl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/plain"
)

// Bounds of a Query.
const (
	DefaultLimit = 100
	MaxLimit     = 100_000
	IDLength     = 32 // of a whole id
	MinID        = 6  // of the beginning of one
)

// A Source is where jobs are looked after. Its errors match those of package
// jobs, whether there is a network between or not.
type Source interface {
	// List returns jobs, those that changed last first.
	List(ctx context.Context, q Query) (Page, error)
	Queues(ctx context.Context) ([]jobs.QueueStatus, error)
	Status(ctx context.Context, queue, id string) (jobs.Status, error)
	Do(ctx context.Context, v Verb, queue, id string) error
	SetPaused(ctx context.Context, queue string, paused bool) error
	// Close ends the connection to it.
	Close()
}

// A Query says which jobs are wanted. The zero Query is the DefaultLimit that
// changed last.
type Query struct {
	Queue  string       // empty: of all queues
	States []jobs.State // none: in every state
	ID     string       // the id, or the beginning of it; empty: whichever
	Limit  int          // at most MaxLimit; 0: DefaultLimit
	Counts bool         // count the jobs of the queue by state, too
}

// A Page is an answer to a Query.
type Page struct {
	Jobs []jobs.Status `json:"jobs"`
	More bool          `json:"more"` // there are more than the limit

	// Counts are the jobs of the queue by state, whatever the Query's States; at most
	// MaxLimit jobs are counted. nil: the Query did not ask for them.
	Counts map[string]int `json:"counts,omitempty"`

	// CountsAge is how old Counts are: a proxy reuses them, because a count reads all jobs.
	CountsAge time.Duration `json:"counts_age_ns,omitempty"`
}

// A Verb is what can be done to a job.
type Verb string

// The verbs.
const (
	Retry  Verb = "retry"
	Cancel Verb = "cancel"
	Drop   Verb = "drop"
)

// Past says what has become of a job to which v was done.
func (v Verb) Past() string {
	return map[Verb]string{Retry: "queued again", Cancel: "canceled", Drop: "dropped"}[v]
}

// States are those of jobs to which v can be done.
func (v Verb) States() []jobs.State {
	switch v {
	case Retry:
		return []jobs.State{jobs.StateFailed, jobs.StateDead, jobs.StateCanceled}
	case Cancel:
		return []jobs.State{jobs.StateQueued, jobs.StateRunning, jobs.StateRetrying}
	}
	return []jobs.State{jobs.StateDone, jobs.StateFailed, jobs.StateDead, jobs.StateCanceled}
}

// AllStates are all that a job can be in.
func AllStates() []jobs.State {
	return append(Cancel.States(), Drop.States()...)
}

// ParseStates reads names of states that are separated by commas.
func ParseStates(text string) ([]jobs.State, error) {
	var out []jobs.State
	for name := range strings.SplitSeq(text, ",") {
		var s jobs.State
		if err := s.UnmarshalText([]byte(strings.TrimSpace(name))); err != nil {
			return nil, fmt.Errorf("%q is no state; want %s", strings.TrimSpace(name), Words(AllStates(), "or"))
		}
		out = append(out, s)
	}
	return out, nil
}

// ParseID reads an id, or the beginning of one.
func ParseID(text string) (string, error) {
	id := strings.ToLower(text)
	if len(id) < MinID || len(id) > IDLength || strings.Trim(id, "0123456789abcdef") != "" {
		return "", fmt.Errorf("%q is no id; want %d characters, 0-9 and a-f, or the first %d or more of them", text, IDLength, MinID)
	}
	return id, nil
}

// Words are things in a sentence: a, b and c.
func Words[T any](things []T, last string) string {
	var b strings.Builder
	for i, t := range things {
		switch {
		case i > 0 && i == len(things)-1:
			b.WriteString(" " + last + " ")
		case i > 0:
			b.WriteString(", ")
		}
		fmt.Fprint(&b, t)
	}
	return b.String()
}

// A problem is an error with a sentence of its own, for people. It unwraps to
// what a program looks for.
type problem struct {
	text string
	is   error // nil: nothing in particular
}

func (p *problem) Error() string { return p.text }
func (p *problem) Unwrap() error { return p.is }

// WriteJSON writes v for programs: one value, and a newline.
func WriteJSON(w io.Writer, v any) error { return writeJSON(w, v, "  ") }

// WriteLine writes v as one line of JSON.
func WriteLine(w io.Writer, v any) error { return writeJSON(w, v, "") }

func writeJSON(w io.Writer, v any, indent string) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	err := e.Encode(v)
	if err == nil {
		_, err = w.Write(plain.JSON(b.Bytes()))
	}
	if err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}

// gone reports whether err says that nobody answers, so that it may be worth to
// ask again.
func gone(err error) bool { return errors.Is(err, jobs.ErrUnavailable) }
