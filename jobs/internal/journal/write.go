package journal

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A Write is one message of a job.
type Write struct {
	Queue, ID string
	Kind      Kind

	// Meta and Data are the content: Meta in a header, as JSON, so that it can be
	// read without Data.
	Meta []byte
	Data []byte

	// After is the revision of the job that the write follows; 0: the job does not
	// exist.
	After uint64

	// TTL is how long the message is kept, rounded up to whole seconds. Zero: no
	// limit.
	TTL time.Duration

	// Unflushed allows a power loss to lose the write.
	Unflushed bool

	// Mine marks a write that matters only as long as this process lives. If the
	// server runs in this process too, the flush is started but not awaited.
	Mine bool
}

// The headers of our messages.
const (
	headerMeta = "Weir-Job"
	headerTry  = "Weir-Try" // distinguishes a retried write from another writer's
)

// message builds the message of w.
func (j *Journal) message(w Write) *nats.Msg {
	m := nats.NewMsg(j.subject(w.Queue, w.ID, w.Kind))
	m.Data = w.Data
	m.Header[headerMeta] = []string{string(w.Meta)}
	m.Header[headerTry] = []string{rand.Text()}
	m.Header[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(w.After, 10)}
	m.Header[jetstream.ExpectedLastSubjSeqSubjHeader] = []string{j.both(w.Queue, w.ID)}
	if w.TTL > 0 {
		seconds := (w.TTL + time.Second - 1) / time.Second
		m.Header[jetstream.MsgTTLHeader] = []string{strconv.FormatInt(int64(seconds), 10) + "s"}
	}
	return m
}

// pause is the wait before a write is retried.
const pause = 50 * time.Millisecond

// Put writes a message, and returns the job's new revision. A write without a
// response is retried until ctx ends or the Journal's timeout has passed. The write's
// random mark shows whether an earlier try was stored.
func (j *Journal) Put(ctx context.Context, w Write) (uint64, error) {
	m := j.message(w)
	seq, err := j.putOnce(ctx, w, m, false)
	if errors.Is(err, ErrUnavailable) {
		return j.putAgain(ctx, w, m, err)
	}
	return seq, err
}

// Start is Put without waiting: it calls then with the result, on any goroutine. then
// must not block.
func (j *Journal) Start(ctx context.Context, w Write, then func(seq uint64, err error)) {
	m := j.message(w)
	j.posts.send(&post{ctx: ctx, w: w, m: m, then: func(seq uint64, err error) {
		if errors.Is(err, ErrUnavailable) {
			go func() { then(j.putAgain(ctx, w, m, err)) }() // ends within the Journal's timeout
			return
		}
		then(seq, err)
	}})
}

// putAgain retries a write that had no response.
func (j *Journal) putAgain(ctx context.Context, w Write, m *nats.Msg, err error) (uint64, error) {
	ctx, cancel := j.bound(ctx)
	defer cancel()
	for {
		select {
		case <-ctx.Done():
			return 0, err
		case <-time.After(pause):
		}
		var seq uint64
		if seq, err = j.putOnce(ctx, w, m, true); !errors.Is(err, ErrUnavailable) {
			return seq, err
		}
	}
}

// try bounds each try of a Put or a read, so that there is time for others.
func (j *Journal) try() time.Duration { return j.o.Timeout / 3 }

// putOnce sends one write, and waits until it is stored and flushed. With again set, an
// earlier try may already have been stored.
func (j *Journal) putOnce(ctx context.Context, w Write, m *nats.Msg, again bool) (uint64, error) {
	type result struct {
		seq uint64
		err error
	}
	done := make(chan result, 1)
	j.posts.send(&post{ctx: ctx, w: w, m: m, again: again, then: func(seq uint64, err error) { done <- result{seq, err} }})
	select {
	case r := <-done:
		return r.seq, r.err
	case <-ctx.Done():
		return 0, j.mapError(cmp.Or(ctx.Err(), context.Canceled))
	}
}

// acked decodes the response to a write: {"stream":"…","seq":1}, or an error. The
// usual response is parsed by hand, because there is one for each write.
func (j *Journal) acked(answer []byte) (uint64, error) {
	before := `{"stream":"` + j.names.stream() + `","seq":`
	if rest, ok := bytes.CutPrefix(answer, []byte(before)); ok {
		var seq uint64
		for len(rest) > 0 && '0' <= rest[0] && rest[0] <= '9' {
			seq = seq*10 + uint64(rest[0]-'0')
			rest = rest[1:]
		}
		if seq > 0 && len(rest) > 0 && (rest[0] == '}' || rest[0] == ',') {
			return seq, nil
		}
	}
	var a struct {
		Sequence uint64              `json:"seq"`
		Error    *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(answer, &a); err != nil {
		return 0, fmt.Errorf("response of the server: %w", err)
	}
	if a.Error != nil {
		return 0, j.mapError(a.Error)
	}
	if a.Sequence == 0 {
		return 0, fmt.Errorf("%w: response without a sequence", ErrUnavailable)
	}
	return a.Sequence, nil
}

// mine checks whether the stored message is m, whose response was lost.
func (j *Journal) mine(ctx context.Context, m *nats.Msg) (uint64, error) {
	there, err := j.get(ctx, getRequest{LastBySubject: m.Subject})
	if err != nil {
		return 0, err
	}
	if there == nil || there.try != m.Header.Get(headerTry) {
		return 0, ErrStale
	}
	return there.Seq, nil
}

// Remove removes a message. It is not an error if the message does not exist.
func (j *Journal) Remove(ctx context.Context, seq uint64) error {
	return j.patiently(ctx, func(ctx context.Context) error { return j.remove(ctx, seq) })
}

// remove sends the request directly, because the client's DeleteMsg reduces the
// server's error to text.
func (j *Journal) remove(ctx context.Context, seq uint64) error {
	body := fmt.Appendf(nil, `{"seq":%d,"no_erase":true}`, seq)
	answer, err := j.nc.RequestWithContext(ctx, "$JS.API.STREAM.MSG.DELETE."+j.names.stream(), body)
	if err != nil {
		return j.mapError(err)
	}
	var a struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(answer.Data, &a); err != nil {
		return fmt.Errorf("response of the server: %w", err)
	}
	if a.Error == nil || isGone(a.Error) {
		return nil
	}
	return j.mapError(a.Error)
}

// isGone reports whether the error means that the message does not exist. The server
// has several codes for that, and uses one of them for other failures too.
func isGone(api *jetstream.APIError) bool {
	switch api.ErrorCode {
	case codeNoSuchSequence, jetstream.JSErrCodeMessageNotFound:
		return true
	case codeDeleteFailed:
		return strings.Contains(api.Description, "no message found") || strings.Contains(api.Description, "not found")
	}
	return false
}

const (
	codeNoSuchSequence = 10043
	codeDeleteFailed   = 10057
)
