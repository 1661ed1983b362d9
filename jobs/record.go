package jobs

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/weir-go/weir/jobs/internal/journal"
)

// formVersion is the version of the two formats below. A program refuses to read any
// other. A field that a program without it must not drop when it rewrites a record needs
// a new version.
const formVersion = 1

// An item is the metadata of a work item, beside the input. It contains only
// durations: the server records when the job was accepted.
type item struct {
	Form        int           `json:"v"`
	Key         string        `json:"key,omitempty"`
	Owner       string        `json:"owner,omitempty"`
	Label       string        `json:"label,omitempty"`
	Serial      string        `json:"serial,omitempty"`
	Fingerprint string        `json:"print,omitempty"`
	Version     int           `json:"in,omitempty"` // of the input's format
	Delay       time.Duration `json:"delay,omitempty"`
	Deadline    time.Duration `json:"deadline,omitempty"`
	Keep        time.Duration `json:"keep,omitempty"` // QueueOptions.ResultTTL
	Lease       time.Duration `json:"lease"`
	LimitKey    string        `json:"limit,omitempty"`
	Headers     headers       `json:"headers,omitempty"`
}

// A record is the metadata of a state, beside the result, or the input of a job that
// has none.
type record struct {
	item
	State     State           `json:"state"`
	Of        uint64          `json:"of"`                  // the sequence of the work item
	Attempt   int             `json:"attempt,omitempty"`   // of all attempts, from 1
	Spent     int             `json:"spent,omitempty"`     // attempts that count
	Snoozes   int             `json:"snoozes,omitempty"`   // attempts that returned Snooze
	Crashes   int             `json:"crashes,omitempty"`   // attempts that lost their worker; see life.crashes
	Unsecured bool            `json:"unsecured,omitempty"` // running, but it does not hold its locks yet; see secure
	Begun     bool            `json:"begun,omitempty"`     // a handler has been called
	Fence     uint64          `json:"fence,omitempty"`     // zero: the record's own sequence
	Worker    string          `json:"worker,omitempty"`
	Submitted time.Time       `json:"submitted"`
	Started   time.Time       `json:"started,omitzero"`
	RetryIn   time.Duration   `json:"retry_in,omitempty"`
	Progress  *Progress       `json:"progress,omitempty"`
	Error     string          `json:"error,omitempty"`
	History   []FailedAttempt `json:"history,omitempty"`
	Log       []LogLine       `json:"log,omitempty"`
	Logged    int             `json:"logged,omitempty"`   // lines, with those that are not kept
	NoInput   bool            `json:"no_input,omitempty"` // the server would not take the input beside the record, see lessen

	// Shown is the revision that clients see while a heartbeat rewrites the record,
	// because nothing visible to them has changed. Zero: the record's own sequence.
	Shown uint64 `json:"shown,omitempty"`
}

// A life is one run of a job as read from the journal, from its submission or retry
// to its end: its work item alone, or its state, with the item if it still exists.
type life struct {
	record
	work, state *journal.Message // state is nil for a job that is only queued
	revision    uint64           // for a write to follow
}

// shown is the revision for clients: that of the last change other than a heartbeat.
func (l *life) shown() uint64 {
	if l.state != nil && l.Shown != 0 {
		return l.Shown
	}
	return l.revision
}

// read builds a life from the journal's messages. It returns false if there are none.
//
// A state older than the work item belongs to the previous life: for example, the job
// had failed and was queued again.
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

// crashes returns how many attempts have lost their worker, including the one that l
// is still marked as running with.
func (l *life) crashes() int {
	if l.State == StateRunning && !l.Unsecured {
		return l.Crashes + 1
	}
	return l.Crashes
}

// since is when l reached its current state, by the server's clock.
func (l *life) since() time.Time {
	if l.state != nil {
		return l.state.Time
	}
	return l.Submitted
}

// torn reports whether the work item belongs to another life than the newer state.
func (l *life) torn() bool { return l.work != nil && l.state != nil && l.Of != l.work.Seq }

// orphan reports whether l is unfinished and has no work item.
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
		return fmt.Errorf("jobs: job %s of queue %q has format %d; this program reads %d", m.ID, m.Queue, form, formVersion)
	}
	return nil
}

// status returns the Status of l.
func (l *life) status(queue, id string, d Durability) Status {
	s := Status{
		ID: id, Queue: queue, State: l.State, Key: l.Key, Owner: l.Owner, LimitKey: l.LimitKey, Label: l.Label, Headers: maps.Clone(l.Headers), Durability: d,
		Attempt: l.Attempt, Snoozes: l.Snoozes, Fence: l.Fence, Progress: l.Progress,
		Submitted: l.Submitted, Started: l.Started, Error: l.Error, History: l.History, Log: l.Log, Logged: l.Logged, Revision: l.shown(),
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

// next returns the record that follows l, with the given state.
func (l *life) next(s State) record {
	r := l.record
	r.Form, r.State, r.RetryIn, r.Error, r.Shown, r.Unsecured = formVersion, s, 0, "", 0, false
	return r
}

// kept returns how long the state of a finished job is kept, given a ttl. The state
// must outlive the work item. If an acknowledgement is lost, the item is redelivered
// after the lease, or after the wait it was in; without the state it would run as a
// new job.
func (r *record) kept(ttl time.Duration) time.Duration {
	return max(ttl, 3*r.Lease+time.Second+max(r.Delay, r.RetryIn))
}

// maxMeta bounds an encoded record. It is sent in a header; the server accepts 64 KiB
// for all headers.
const maxMeta = 56 << 10

// failedTTL is how long a failed job is kept: like a result, or like a dead job if
// results are not kept. Otherwise the failure would go unnoticed.
func (r *record) failedTTL(q *queue) time.Duration {
	if r.Keep == None {
		return q.o.DeadTTL
	}
	return r.Keep
}

// underWayTTL removes states of unfinished jobs. No job needs its state for that
// long; only states that came back after they were replaced remain, see Store.lookAt.
const underWayTTL = 2 * MaxDelay

// meta encodes an item or a record. If the record is too long, it leaves out the
// oldest lines of the log, and then the oldest failed attempts: each error can have a
// thousand characters of six bytes. All other bounded fields fit.
func meta(v any) []byte {
	if data := encodePlain(v); data != nil && len(data) <= maxMeta {
		return data
	}
	data := encode(v)
	for r, ok := v.(record); ok && len(data) > maxMeta && len(r.Log)+len(r.History) > 0; data = encode(r) {
		if len(r.Log) > 0 {
			r.Log = r.Log[1:]
		} else {
			r.History = r.History[1:]
		}
	}
	return data
}

func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // the text is never HTML, and escapes take six times the space
	if err := e.Encode(v); err != nil {
		panic("jobs: " + err.Error()) // our own types can always be encoded
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// fail records a failed attempt, and forgets the oldest beyond MaxHistory.
func (r *record) fail(at time.Time, err error, class string) {
	r.Error = clip(err.Error())
	r.History = append(r.History[:len(r.History):len(r.History)], FailedAttempt{
		Attempt: r.Attempt, Ended: at, Error: r.Error, Class: class, Worker: r.Worker,
	})
	if n := len(r.History) - MaxHistory; n > 0 {
		r.History = r.History[n:]
	}
}

// lessen leaves out a part of a record of a job that is over, and of its data, after
// the server has refused both together as too large: first the log and the history,
// then the data. It returns false if nothing is left to leave out. Submit keeps room for
// the longest record, but the server's max_payload may have been lowered since.
func (r *record) lessen(data *[]byte) bool {
	switch {
	case len(r.Log)+len(r.History) > 0:
		r.Log, r.History = nil, nil
	case len(*data) > 0:
		*data, r.NoInput = nil, true
	default:
		return false
	}
	return true
}

// clip cuts a stored text to MaxNote bytes, at a character boundary.
func clip(s string) string {
	if len(s) > MaxNote {
		s = s[:MaxNote]
	}
	return strings.ToValidUTF8(s, "")
}

// idOf derives a job's ID from its key; without a key the ID is random. The names
// contain no zero byte, so two queues never share an ID. Nor does a key, so no job has
// the ID of a lock or a gate: they are named like a key with one.
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

// fingerprint returns a hash of an input.
func fingerprint(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}
