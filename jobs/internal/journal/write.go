package journal

import (
	"bytes"
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

	// Meta and Data are the message: Meta in a header, as JSON, where it can be
	// read without Data.
	Meta []byte
	Data []byte

	// After is the revision of the job that the write follows; 0: there is none.
	After uint64

	// TTL is how long it is kept, in whole seconds. Zero: without end.
	TTL time.Duration

	// Unflushed says that the write may be lost with the power.
	Unflushed bool

	// Mine says that the write matters only as long as this process lives. If
	// the server is in it, too, its flush is begun, and not waited for.
	Mine bool
}

// The headers of our messages.
const (
	headerMeta = "Weir-Job"
	headerTry  = "Weir-Try" // tells a write that was repeated from another's
)

// message makes the message of w.
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

// pause is how long a write waits before it is repeated.
const pause = 50 * time.Millisecond

// Put writes, and returns the job's new revision. A write that got no answer is
// repeated, until ctx ends or the Journal's timeout has passed; its own mark
// shows whether it was there already.
func (j *Journal) Put(ctx context.Context, w Write) (uint64, error) {
	m := j.message(w)
	seq, err := j.putOnce(ctx, w, m, false)
	if !errors.Is(err, ErrUnavailable) {
		return seq, err
	}
	ctx, cancel := j.bound(ctx)
	defer cancel()
	for {
		select {
		case <-ctx.Done():
			return 0, err
		case <-time.After(pause):
		}
		if seq, err = j.putOnce(ctx, w, m, true); !errors.Is(err, ErrUnavailable) {
			return seq, err
		}
	}
}

// try bounds one of the tries of a Put or a read, so that there can be others.
func (j *Journal) try() time.Duration { return j.o.Timeout / 3 }

// putOnce sends one write, waits for its answer, and flushes. Where it is a
// repetition it may have been written before.
func (j *Journal) putOnce(ctx context.Context, w Write, m *nats.Msg, again bool) (uint64, error) {
	if j.life.Err() != nil {
		return 0, ErrClosed
	}
	ctx, cancel := context.WithTimeout(ctx, j.try())
	defer cancel()
	answer, err := j.nc.RequestMsgWithContext(ctx, m)
	if err != nil {
		return 0, j.mapError(err)
	}
	seq, err := j.acked(answer.Data)
	if again && errors.Is(err, ErrStale) {
		seq, err = j.mine(ctx, m)
	}
	if err != nil || !j.flushes || w.Unflushed {
		return seq, err
	}
	if f := j.localFlusher(); w.Mine && f != nil {
		f.Begin(j.names.stream())
		return seq, nil
	}
	return seq, j.flush(ctx)
}

// acked reads what the server says of a write: {"stream":"…","seq":1}, or an
// error. The usual answer is read by hand, as there is one for each write.
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
		return 0, fmt.Errorf("answer of the server: %w", err)
	}
	if a.Error != nil {
		return 0, j.mapError(a.Error)
	}
	if a.Sequence == 0 {
		return 0, fmt.Errorf("%w: an answer without a sequence", ErrUnavailable)
	}
	return a.Sequence, nil
}

// mine looks whether m is what is there: a write whose answer was lost.
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

// Remove removes a message. One that is gone is fine.
func (j *Journal) Remove(ctx context.Context, seq uint64) error {
	return j.patiently(ctx, func(ctx context.Context) error { return j.remove(ctx, seq) })
}

// remove asks by itself: the client's DeleteMsg makes a text of the server's
// error.
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
		return fmt.Errorf("answer of the server: %w", err)
	}
	if a.Error == nil || isGone(a.Error) {
		return nil
	}
	return j.mapError(a.Error)
}

// isGone reports whether the server says that there is no such message, for
// which it has several codes; one of them is for other failures, too.
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
