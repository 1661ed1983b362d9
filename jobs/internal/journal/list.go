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

// Each calls f for every message of a queue ("*": of all queues) that existed when it
// began, in the order of writing, until f returns false. It can miss changes that
// happen during the call.
//
// It requests all messages of the queue, including locks: for a wildcard in the
// middle of the subjects the server would scan a whole block for each message.
// the subjects the server looks at all of a block for each message.
func (j *Journal) Each(ctx context.Context, queue string, f func(*Message) bool) error {
	all := j.prefix() + ">"
	if queue != "*" {
		all = j.prefix() + queue + ".>"
	}
	for seq := uint64(1); ; {
		last, more, err := j.page(ctx, getRequest{Seq: seq, NextBySubject: all, Batch: pageMessages, MaxBytes: pageBytes}, f)
		if err != nil || !more {
			return err
		}
		seq = last + 1
	}
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
