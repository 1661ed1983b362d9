package jobs

import (
	"fmt"
	"time"
)

// A State is where a job stands.
type State uint8

const (
	// StateQueued: it was accepted and has not started; it may be delayed.
	StateQueued State = 1 + iota
	// StateRunning: an attempt has started.
	StateRunning
	// StateRetrying: an attempt has failed, and the next one waits for its time.
	StateRetrying
	// StateDone: it has its result.
	StateDone
	// StateFailed: it has ended with a permanent error, or was not started in time.
	StateFailed
	// StateDead: all its attempts have failed, or its input cannot be read. It is on
	// the dead list.
	StateDead
	// StateCanceled: it was canceled before it had a result.
	StateCanceled

	// forgotten: it was dropped. No API shows such a job.
	forgotten
)

var stateNames = [...]string{"", "queued", "running", "retrying", "done", "failed", "dead", "canceled", "forgotten"}

// String returns the state's name in small letters.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("state(%d)", s)
}

// Terminal reports whether a job in this state is over: it has a result, or
// will never have one. Only Retry begins it anew.
func (s State) Terminal() bool { return s >= StateDone }

// MarshalText writes what String returns.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what String returns.
func (s *State) UnmarshalText(text []byte) error {
	for i, name := range stateNames {
		if name == string(text) && i > 0 {
			*s = State(i)
			return nil
		}
	}
	return fmt.Errorf("jobs: %q is not a state", text)
}

// A Status is what is known of a job. Instants are of the server's clock.
type Status struct {
	ID    string `json:"id"`
	Queue string `json:"queue"`
	State State  `json:"state"`

	// Key and Owner are those of SubmitOptions.
	Key   string `json:"key,omitempty"`
	Owner string `json:"owner,omitempty"`

	// Durability is what the acceptance survives.
	Durability Durability `json:"durability"`

	// Attempt counts attempts from 1; zero: none has started. Fence is that of
	// the last one.
	Attempt int    `json:"attempt,omitempty"`
	Fence   uint64 `json:"fence,omitempty"`

	// Progress is what the last attempt reported last.
	Progress *Progress `json:"progress,omitempty"`

	// Submitted is when it was accepted, Started when the last attempt did,
	// Finished when it ended; zero: not yet.
	Submitted time.Time `json:"submitted"`
	Started   time.Time `json:"started,omitzero"`
	Finished  time.Time `json:"finished,omitzero"`

	// NotBefore is when the next attempt is due, where one waits for its time.
	NotBefore time.Time `json:"not_before,omitzero"`

	// Error is why it failed, died or was canceled, or why the last attempt
	// failed. History has all failed attempts, the last MaxHistory of them, or
	// fewer where their errors are long.
	Error   string          `json:"error,omitempty"`
	History []FailedAttempt `json:"history,omitempty"`

	// Revision grows with each change of the job.
	Revision uint64 `json:"revision"`
}

// MaxHistory is how many failed attempts a job remembers.
const MaxHistory = 16

// A FailedAttempt is one attempt that came to nothing.
type FailedAttempt struct {
	Attempt int       `json:"attempt"`
	Ended   time.Time `json:"ended"`
	Error   string    `json:"error"`
	Class   string    `json:"class,omitempty"` // weir.Class's name
	Worker  string    `json:"worker,omitempty"`
}

// A Progress is what a handler says of its attempt.
type Progress struct {
	// StateDone of Total are counts of whatever it does; Total zero: unknown.
	Done  int64 `json:"done"`
	Total int64 `json:"total,omitempty"`
	// Note is for people, at most MaxNote bytes; the rest is cut.
	Note string `json:"note,omitempty"`
}

// MaxNote bounds Progress.Note, and each error that is kept, in bytes.
const MaxNote = 1 << 10
