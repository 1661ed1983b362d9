package disk

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// The names that package journal gives to streams and subjects, in the version that
// this program knows, and the relevant headers.
const (
	StreamPrefix   = "WEIR_JOBS_1_"
	streamsAnyForm = "WEIR_JOBS_"
	subjectPrefix  = "weir.jobs.1."
	metaHeader     = "Weir-Job"
	ttlHeader      = "Nats-TTL"
)

// A kind says which message of a job this is.
type kind byte

const (
	work     kind = 'w'
	state    kind = 's'
	terminal kind = 'S' // the state of a finished job
)

// A key identifies one message of a job: the last one of its subject counts.
type key struct {
	queue string
	id    [16]byte
	state bool
}

// job returns the same key for both messages of a job.
func (k key) job() key { k.state = false; return k }

// ID returns the job's ID as package jobs prints it.
func (k key) ID() string { return hex.EncodeToString(k.id[:]) }

// A message is the relevant part of a job's message.
type message struct {
	key
	kind    kind
	seq     uint64
	time    time.Time
	expires time.Time // zero: never
}

// gone reports whether the message may have been removed because of its age.
func (m message) gone(now time.Time) bool {
	return !m.expires.IsZero() && !m.expires.After(now.Add(time.Second))
}

// message converts a record to a message. It reports false for records that belong to
// no job, such as removals, locks and marks; no job is lost without them.
func (r record) message() (m message, ok bool) {
	rest, ok := strings.CutPrefix(r.subject, subjectPrefix)
	if !ok || r.tomb || r.erased {
		return m, false
	}
	parts := strings.Split(rest, ".")
	if len(parts) != 4 || strings.HasPrefix(parts[1], "!") || len(parts[2]) != 32 {
		return m, false
	}
	if _, err := hex.Decode(m.id[:], []byte(parts[2])); err != nil {
		return m, false
	}
	m.queue, m.seq, m.time = parts[1], r.seq, time.Unix(0, r.time)
	switch parts[3] {
	case "w":
		m.kind = work
	case "s":
		m.kind, m.state = state, true
		if isTerminal(field(r.header, metaHeader)) {
			m.kind = terminal
		}
	default:
		return m, false
	}
	m.expires = r.expires()
	return m, true
}

// expires returns when the server removes the message; the zero time: never.
func (r record) expires() (at time.Time) {
	ttl := field(r.header, ttlHeader)
	if len(ttl) == 0 {
		return at
	}
	if d, err := time.ParseDuration(string(ttl)); err == nil {
		return time.Unix(0, r.time).Add(d)
	}
	if n, err := strconv.Atoi(string(ttl)); err == nil {
		return time.Unix(0, r.time).Add(time.Duration(n) * time.Second)
	}
	return at
}

// field returns the value of a header, or nil.
func field(header []byte, name string) []byte {
	for line := range bytes.SplitSeq(header, []byte("\r\n")) {
		if value, ok := bytes.CutPrefix(line, []byte(name+":")); ok {
			return bytes.TrimSpace(value)
		}
	}
	return nil
}

// isTerminal reports whether the text of a state says that the job is finished. Weir
// writes this JSON itself, so a quote within a value always has a backslash before
// it.
func isTerminal(meta []byte) bool {
	_, rest, ok := bytes.Cut(meta, []byte(`"state":"`))
	if !ok {
		return false
	}
	name, _, _ := bytes.Cut(rest, []byte(`"`))
	switch string(name) {
	case "queued", "running", "retrying":
		return false
	}
	return true
}

// form returns the format version of a message, or 0 if it cannot be read.
func form(meta []byte) int {
	var v struct {
		Form int `json:"v"`
	}
	if json.Unmarshal(meta, &v) != nil {
		return 0
	}
	return v.Form
}

// leaseOf returns the lease of a work item, or 0 if it cannot be read.
func leaseOf(meta []byte) time.Duration {
	var v struct {
		Lease time.Duration `json:"lease"`
	}
	if json.Unmarshal(meta, &v) != nil {
		return 0
	}
	return v.Lease
}
