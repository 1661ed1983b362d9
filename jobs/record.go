package jobs

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/weir-go/weir/jobs/internal/journal"
)

// formVersion is that of the two forms below. A program refuses to read a higher
// one.
const formVersion = 1

// An item is what a work item says beside the input. Only durations are in it:
// when it was accepted is the server's to say.
type item struct {
	Form        int           `json:"v"`
	Key         string        `json:"key,omitempty"`
	Owner       string        `json:"owner,omitempty"`
	Serial      string        `json:"serial,omitempty"`
	Fingerprint string        `json:"print,omitempty"`
	Version     int           `json:"in,omitempty"` // of the input's form
	Delay       time.Duration `json:"delay,omitempty"`
	Deadline    time.Duration `json:"deadline,omitempty"`
	Keep        time.Duration `json:"keep,omitempty"` // what is left of it when it is over
	Lease       time.Duration `json:"lease"`
}

// A record is what a state says beside the result, or the input of a job that
// came to nothing.
type record struct {
	item
	State     State           `json:"state"`
	Of        uint64          `json:"of"`                  // the sequence of the work item
	Attempt   int             `json:"attempt,omitempty"`   // from 1, all of them
	Spent     int             `json:"spent,omitempty"`     // attempts that count
	Crashes   int             `json:"crashes,omitempty"`   // attempts that lost their worker; see life.crashes
	Unsecured bool            `json:"unsecured,omitempty"` // running, but not before it holds its locks; see secure
	Begun     bool            `json:"begun,omitempty"`     // a handler has been called
	Fence     uint64          `json:"fence,omitempty"`     // zero: the record's own sequence
	Worker    string          `json:"worker,omitempty"`
	Submitted time.Time       `json:"submitted"`
	Started   time.Time       `json:"started,omitzero"`
	RetryIn   time.Duration   `json:"retry_in,omitempty"`
	Progress  *Progress       `json:"progress,omitempty"`
	Error     string          `json:"error,omitempty"`
	History   []FailedAttempt `json:"history,omitempty"`

	// Shown is the revision that clients see while a heartbeat rewrites the
	// record: nothing that they asked about has changed. Zero: the record's own
	// sequence.
	Shown uint64 `json:"shown,omitempty"`
}

// A life is a job as it was read: its work item alone, or its state, with the
// item where that is still there.
type life struct {
	record
	work, state *journal.Message // state is nil for a job that is only queued
	revision    uint64           // what a write has to follow
}

// shown is the revision for clients: that of the last change which was more than
// a heartbeat.
func (l *life) shown() uint64 {
	if l.state != nil && l.Shown != 0 {
		return l.Shown
	}
	return l.revision
}

// read makes a life of what the journal has. It reports false if that is
// nothing.
//
// A state that is older than the work item is of the life before: a job that was
// failed, say, and is queued again.
func read(v journal.View) (*life, bool, error) {
	l := &life{work: v.Work, state: v.State, revision: v.Revision()}
	switch {
	case v.Work != nil && (v.State == nil || v.State.Seq < v.Work.Seq):
		l.state = nil
		if err := decodeMeta(v.Work, &l.item); err != nil {
			return nil, false, err
		}
		l.State, l.Of, l.Submitted = StateQueued, v.Work.Seq, v.Work.Time
	case v.State != nil:
		if err := decodeMeta(v.State, &l.record); err != nil {
			return nil, false, err
		}
		if l.Fence == 0 && l.Attempt > 0 {
			l.Fence = v.State.Seq
		}
		if l.Started.IsZero() && l.State == StateRunning {
			l.Started = v.State.Time
		}
	default:
		return nil, false, nil
	}
	return l, true, nil
}

// crashes is how many attempts have lost their worker, including the one that l
// is still marked as running with. A record of a program that did not count them
// has them in its history.
func (l *life) crashes() int {
	n := l.Crashes
	if n == 0 {
		for _, a := range l.History {
			if a.Error == errWorkerLost.Error() {
				n++
			}
		}
	}
	if l.State == StateRunning && !l.Unsecured {
		n++
	}
	return n
}

// since is when l became what it is, by the server's clock.
func (l *life) since() time.Time {
	if l.state != nil {
		return l.state.Time
	}
	return l.Submitted
}

// torn reports whether the work item is of another life than the state after it.
func (l *life) torn() bool { return l.work != nil && l.state != nil && l.Of != l.work.Seq }

// orphan reports whether l is under way without a work item.
func (l *life) orphan() bool { return l.work == nil && !l.State.Terminal() }

func decodeMeta(m *journal.Message, into any) error {
	if err := json.Unmarshal(m.Meta, into); err != nil {
		return fmt.Errorf("jobs: job %s of queue %q cannot be read: %w", m.ID, m.Queue, err)
	}
	form := 0
	switch v := into.(type) {
	case *item:
		form = v.Form
	case *record:
		form = v.Form
	}
	if form != formVersion {
		return fmt.Errorf("jobs: job %s of queue %q has the form %d; this program reads %d", m.ID, m.Queue, form, formVersion)
	}
	return nil
}

// status is what callers see of l.
func (l *life) status(queue, id string, d Durability) Status {
	s := Status{
		ID: id, Queue: queue, State: l.State, Key: l.Key, Owner: l.Owner, Durability: d,
		Attempt: l.Attempt, Fence: l.Fence, Progress: l.Progress,
		Submitted: l.Submitted, Started: l.Started, Error: l.Error, History: l.History, Revision: l.shown(),
	}
	switch {
	case l.State == StateQueued && l.Delay > 0:
		s.NotBefore = l.Submitted.Add(l.Delay)
	case l.State == StateRetrying:
		s.NotBefore = l.state.Time.Add(l.RetryIn)
	case l.State.Terminal():
		s.Finished = l.state.Time
	}
	return s
}

// next returns the record that follows l in the given state.
func (l *life) next(s State) record {
	r := l.record
	r.Form, r.State, r.RetryIn, r.Error, r.Shown, r.Unsecured = formVersion, s, 0, "", 0, false
	return r
}

// kept is how long what is left of a job is kept, for a ttl. It
// must outlive the work item: an acknowledgement that was lost brings that back,
// after the lease or the wait it was in, and without the state it would be a new
// job.
func (r *record) kept(ttl time.Duration) time.Duration {
	return max(ttl, 3*r.Lease+time.Second+max(r.Delay, r.RetryIn))
}

// maxMeta bounds an encoded record. It is sent in a header, of which the server
// takes 64 KiB with all others.
const maxMeta = 56 << 10

// failedTTL is how long a failed job is kept: as a result is, and where none is
// kept, as a dead job is. Nobody would hear of it otherwise.
func (r *record) failedTTL(q *queue) time.Duration {
	if r.Keep == None {
		return q.o.DeadTTL
	}
	return r.Keep
}

// underWayTTL removes states of jobs that are not over, which none of them needs
// for as long: those that came back after they had been replaced, see
// Store.lookAt.
const underWayTTL = 2 * MaxDelay

// meta encodes an item or a record. Of failed attempts, the oldest are left out
// where there is no room for all: each can have a thousand characters that take
// six bytes. All else that is bounded has room.
func meta(v any) []byte {
	data := encode(v)
	for r, ok := v.(record); ok && len(data) > maxMeta && len(r.History) > 0; data = encode(r) {
		r.History = r.History[1:]
	}
	return data
}

func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // nobody reads it as HTML, and it takes six times the room
	if err := e.Encode(v); err != nil {
		panic("jobs: " + err.Error()) // of our own types, which always can be
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// fail notes a failed attempt, and forgets the oldest beyond MaxHistory.
func (r *record) fail(at time.Time, err error, class string) {
	r.Error = clip(err.Error())
	r.History = append(r.History[:len(r.History):len(r.History)], FailedAttempt{
		Attempt: r.Attempt, Ended: at, Error: r.Error, Class: class, Worker: r.Worker,
	})
	if n := len(r.History) - MaxHistory; n > 0 {
		r.History = r.History[n:]
	}
}

// clip cuts a text that is kept to MaxNote bytes, at a whole character.
func clip(s string) string {
	if len(s) > MaxNote {
		s = s[:MaxNote]
	}
	return strings.ToValidUTF8(s, "")
}

// idOf makes a job's ID of its key; without one it is random. The queue's name
// has no zero byte, so two pairs never look the same.
func idOf(namespace, queue, key string) string {
	var id [16]byte
	if key == "" {
		rand.Read(id[:])
	} else {
		sum := sha256.Sum256([]byte(namespace + "\x00" + queue + "\x00" + key))
		copy(id[:], sum[:])
	}
	return hex.EncodeToString(id[:])
}

// fingerprint tells inputs apart.
func fingerprint(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}
