package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A Message is a stored message of a job.
type Message struct {
	Queue, ID string
	Kind      Kind
	Seq       uint64
	Time      time.Time // when it was written, by the server's clock
	Meta      []byte
	Data      []byte

	try   string
	after int // in a page: the number of messages after it
}

// A View has the stored messages of a job.
type View struct {
	Work, State *Message // nil: none
}

// Revision returns the revision that a write has to follow.
func (v View) Revision() uint64 {
	var r uint64
	if v.Work != nil {
		r = v.Work.Seq
	}
	if v.State != nil {
		r = max(r, v.State.Seq)
	}
	return r
}

// Read returns the stored messages of a job.
//
// It reads the work item before the state: the item is written first and removed
// last, so an existing job never appears to be missing. The one exception is a job
// that is stored and ends between the two reads; then its state is terminal, and the
// missing item does not matter.
func (j *Journal) Read(ctx context.Context, queue, id string) (View, error) {
	ctx, cancel := j.bound(ctx)
	defer cancel()
	var v View
	var err error
	if v.Work, err = j.get(ctx, getRequest{LastBySubject: j.subject(queue, id, Work)}); err != nil {
		return View{}, err
	}
	v.State, err = j.get(ctx, getRequest{LastBySubject: j.subject(queue, id, State)})
	return v, err
}

// ReadKind returns one of the messages of a job, or nil if there is none.
func (j *Journal) ReadKind(ctx context.Context, queue, id string, k Kind) (*Message, error) {
	ctx, cancel := j.bound(ctx)
	defer cancel()
	return j.get(ctx, getRequest{LastBySubject: j.subject(queue, id, k)})
}

type getRequest struct {
	Seq           uint64 `json:"seq,omitempty"`
	LastBySubject string `json:"last_by_subj,omitempty"`
	NextBySubject string `json:"next_by_subj,omitempty"`
	Batch         int    `json:"batch,omitempty"`
	MaxBytes      int    `json:"max_bytes,omitempty"`
}

// get returns a message, or nil. With one replica any response is the server's; with
// more the leader is queried, because a follower may not know the latest message.
func (j *Journal) get(ctx context.Context, r getRequest) (*Message, error) {
	for {
		m, err := j.getOnce(ctx, r)
		if !errors.Is(err, ErrUnavailable) || ctx.Err() != nil {
			return m, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(pause):
		}
	}
}

func (j *Journal) getOnce(ctx context.Context, r getRequest) (*Message, error) {
	ctx, cancel := context.WithTimeout(ctx, j.try())
	defer cancel()
	body, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	if j.o.Replicas > 1 {
		return j.getFromLeader(ctx, body)
	}
	answer, err := j.nc.RequestWithContext(ctx, "$JS.API.DIRECT.GET."+j.names.stream(), body)
	if err != nil {
		return nil, j.mapError(err)
	}
	return j.direct(answer)
}

// headerPending is the number of messages that follow, in responses to requests for
// several.
const headerPending = "Nats-Num-Pending"

// direct decodes a message from a direct get. It returns nil if there is none.
func (j *Journal) direct(answer *nats.Msg) (*Message, error) {
	switch status := answer.Header.Get("Status"); {
	case status == "404":
		return nil, nil
	case status != "":
		return nil, fmt.Errorf("%w: %s %s", ErrUnavailable, status, answer.Header.Get("Description"))
	}
	var seq uint64
	if _, err := fmt.Sscan(answer.Header.Get(jetstream.SequenceHeader), &seq); err != nil {
		return nil, fmt.Errorf("message without a sequence: %w", err)
	}
	at, err := time.Parse(time.RFC3339Nano, answer.Header.Get(jetstream.TimeStampHeaer))
	if err != nil {
		return nil, fmt.Errorf("message without a time: %w", err)
	}
	m, err := j.kept(answer.Header.Get(jetstream.SubjectHeader), seq, at, answer.Header, answer.Data)
	if pending := answer.Header.Get(headerPending); err == nil && pending != "" {
		if m.after, err = strconv.Atoi(pending); err != nil {
			return nil, fmt.Errorf("message without a count: %w", err)
		}
	}
	return m, err
}

func (j *Journal) getFromLeader(ctx context.Context, body []byte) (*Message, error) {
	answer, err := j.nc.RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET."+j.names.stream(), body)
	if err != nil {
		return nil, j.mapError(err)
	}
	var a struct {
		Message *struct {
			Subject string    `json:"subject"`
			Seq     uint64    `json:"seq"`
			Header  []byte    `json:"hdrs"`
			Data    []byte    `json:"data"`
			Time    time.Time `json:"time"`
		} `json:"message"`
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(answer.Data, &a); err != nil {
		return nil, fmt.Errorf("response of the server: %w", err)
	}
	switch {
	case a.Error != nil && a.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return nil, nil
	case a.Error != nil:
		return nil, j.mapError(a.Error)
	case a.Message == nil:
		return nil, nil
	}
	header, err := nats.DecodeHeadersMsg(a.Message.Header)
	if err != nil {
		return nil, fmt.Errorf("headers of a message: %w", err)
	}
	return j.kept(a.Message.Subject, a.Message.Seq, a.Message.Time, header, a.Message.Data)
}

func (j *Journal) kept(subject string, seq uint64, at time.Time, header nats.Header, data []byte) (*Message, error) {
	queue, id, kind, ok := j.parse(subject)
	if !ok {
		return nil, fmt.Errorf("message on the unexpected subject %q", subject)
	}
	return &Message{
		Queue: queue, ID: id, Kind: kind, Seq: seq, Time: at,
		Meta: []byte(header.Get(headerMeta)), Data: data, try: header.Get(headerTry),
	}, nil
}

// Delivered converts a message from the consumer to a Message.
func (j *Journal) Delivered(m jetstream.Msg) (*Message, error) {
	meta, err := m.Metadata()
	if err != nil {
		return nil, err
	}
	return j.kept(m.Subject(), meta.Sequence.Stream, meta.Timestamp, m.Headers(), m.Data())
}
