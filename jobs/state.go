package jobs

import (
	"fmt"
	"time"
)

// A State is the state of a job.
type State uint8

const (
	// StateQueued: the job was accepted and has not started; it can be delayed.
	StateQueued State = 1 + iota
	// StateRunning: an attempt has started.
	StateRunning
	// StateRetrying: an attempt has failed or was snoozed, and the next one is waiting
	// for its time.
	StateRetrying
	// StateDone: the job has its result.
	StateDone
	// StateFailed: the job ended with a permanent error, or was not started in time.
	StateFailed
	// StateDead: all attempts of the job have failed, or its input cannot be read.
	// The job is on the dead list.
	StateDead
	// StateCanceled: the job was canceled before it had a result.
	StateCanceled

	// forgotten: the job was dropped. No API shows such a job.
	forgotten
)

var stateNames = [...]string{"", "queued", "running", "retrying", "done", "failed", "dead", "canceled", "forgotten"}

// String returns the state's name in lower case.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("state(%d)", s)
}

// Terminal reports whether a job in this state is over: it has a result, or will
// never have one. Only Retry, or a Submit with its key, starts it again.
func (s State) Terminal() bool { return s >= StateDone }

// MarshalText returns the same as String.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText parses what String returns.
func (s *State) UnmarshalText(text []byte) error {
	for i, name := range stateNames {
		if name == string(text) && i > 0 {
			*s = State(i)
			return nil
		}
	}
	return fmt.Errorf("jobs: %q is not a state", text)
}

// A Status describes a job. Times are by the server's clock.
type Status struct {
	ID    string `json:"id"`    // ID of the job
	Queue string `json:"queue"` // name of the queue
	State State  `json:"state"` // current state

	// Key, Owner and Label are from SubmitOptions.
	Key   string `json:"key,omitempty"`
	Owner string `json:"owner,omitempty"`
	Label string `json:"label,omitempty"`

	// LimitKey is SubmitOptions.LimitKey.
	LimitKey string `json:"limit_key,omitempty"`

	// Headers are SubmitOptions.Headers.
	Headers map[string]string `json:"headers,omitempty"`

	// Durability is what the accepted job survives.
	Durability Durability `json:"durability"`

	// Attempt is the number of the last attempt, from 1; zero: none has started.
	// Fence is the fence of that attempt.
	Attempt int    `json:"attempt,omitempty"`
	Fence   uint64 `json:"fence,omitempty"`

	// Snoozes is how often the handler has returned Snooze.
	Snoozes int `json:"snoozes,omitempty"`

	// Progress is the latest report of the last attempt.
	Progress *Progress `json:"progress,omitempty"`

	// Submitted is when the job was accepted, Started when its last attempt started,
	// Finished when the job ended; zero: not yet.
	Submitted time.Time `json:"submitted"`
	Started   time.Time `json:"started,omitzero"`
	Finished  time.Time `json:"finished,omitzero"`

	// NotBefore is when the next attempt is due, if one is waiting for its time.
	NotBefore time.Time `json:"not_before,omitzero"`

	// Error is why the job failed, died or was canceled, or why its last attempt
	// failed. History has the last MaxHistory failed attempts, or fewer if their
	// errors are long.
	Error   string          `json:"error,omitempty"`
	History []FailedAttempt `json:"history,omitempty"`

	// Log has the last lines that the handler wrote with Job.Log, and Logged counts all
	// of them. List leaves out the lines.
	Log    []LogLine `json:"log,omitempty"`
	Logged int       `json:"logged,omitempty"`

	// Revision grows with each change of the job.
	Revision uint64 `json:"revision"`
}

// MaxHistory is the maximum number of failed attempts in Status.History.
const MaxHistory = 16

// A FailedAttempt is one attempt that failed.
type FailedAttempt struct {
	Attempt int       `json:"attempt"`          // number of the attempt
	Ended   time.Time `json:"ended"`            // time at which it ended
	Error   string    `json:"error"`            // text of its error
	Class   string    `json:"class,omitempty"`  // weir.Class's name
	Worker  string    `json:"worker,omitempty"` // name of the worker that ran it
}

// A Progress is a handler's report about its attempt.
type Progress struct {
	// Done of Total are counts of whatever the handler does; Total zero: unknown.
	Done  int64 `json:"done"`
	Total int64 `json:"total,omitempty"`
	// Note is for people, at most MaxNote bytes; longer notes are cut.
	Note string `json:"note,omitempty"`
}

// MaxNote bounds Progress.Note, and each stored error, in bytes.
const MaxNote = 1 << 10
