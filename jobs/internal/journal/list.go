package journal

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/nats-io/nats.go"
)

// Maximum number and size of the messages per request.
const (
	pageMessages = 1024
	pageBytes    = 8 << 20
)

// Last returns the sequence number of the latest message of all queues.
func (j *Journal) Last(ctx context.Context) (last uint64, err error) {
	err = j.patiently(ctx, func(ctx context.Context) error {
		s, err := j.js.Stream(ctx, j.names.stream())
		if err == nil {
			last = s.CachedInfo().State.LastSeq
		}
		return j.mapError(err)
	})
	return last, err
}

// Between calls f for every message of a queue ("*": of all queues) from one sequence
// number to another, in the order of writing. It can miss changes that happen during the
// call.
//
// It requests all messages of the queue, including locks: for a wildcard in the
// middle of the subjects the server would scan a whole block for each message.
func (j *Journal) Between(ctx context.Context, queue string, from, to uint64, f func(*Message)) error {
	all := j.prefix() + ">"
	if queue != "*" {
		all = j.prefix() + queue + ".>"
	}
	for seq := from; seq <= to; {
		batch := pageMessages
		if left := to - seq + 1; left > 0 && left < pageMessages {
			batch = int(left) //nolint:gosec // it is below pageMessages
		}
		last, more, err := j.page(ctx, getRequest{Seq: seq, NextBySubject: all, Batch: batch, MaxBytes: pageBytes}, func(m *Message) bool {
			if m.Seq > to {
				return false
			}
			f(m)
			return true
		})
		if err != nil || !more {
			return err
		}
		seq = last + 1
	}
	return nil
}

// page requests one page, and returns the sequence of its last message and whether
// there may be more.
func (j *Journal) page(ctx context.Context, r getRequest, f func(*Message) bool) (last uint64, more bool, err error) {
	ctx, cancel := j.bound(ctx)
	defer cancel()
	inbox := j.nc.NewRespInbox()
	sub, err := j.nc.SubscribeSync(inbox)
	if err != nil {
		return 0, false, j.mapError(err)
	}
	defer sub.Unsubscribe()
	body, err := json.Marshal(r)
	if err != nil {
		return 0, false, err
	}
	if err := j.nc.PublishRequest("$JS.API.DIRECT.GET."+j.names.stream(), inbox, body); err != nil {
		return 0, false, j.mapError(err)
	}
	for range r.Batch + 1 {
		answer, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return 0, false, j.mapError(err)
		}
		switch status := answer.Header.Get("Status"); status {
		case "":
		case "204": // the end of the page
			return last, last > 0 && answer.Header.Get(headerPending) != "0", nil
		case "404":
			return last, false, nil
		case "503":
			return 0, false, j.mapError(nats.ErrNoResponders)
		default:
			return 0, false, fmt.Errorf("server: %s %s", status, answer.Header.Get("Description"))
		}
		m, err := j.direct(answer)
		if err != nil {
			return 0, false, err
		}
		last = m.Seq
		if !f(m) {
			return last, false, nil
		}
	}
	return last, true, nil
}
