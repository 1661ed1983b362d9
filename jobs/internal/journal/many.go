package journal

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

// Bounds of the messages that PutMany sends before it waits for their responses. The
// server buffers 10,000 messages of a stream, from all its clients.
const (
	windowMessages = 256
	windowBytes    = 4 << 20
)

// PutMany writes messages of different jobs, and returns the revision or the error of
// each. The messages are sent without waiting for the responses in between, and one
// flush serves all of them. They are separate writes: some can fail while others
// succeed. A write without a response is retried as in Put.
//
// Unflushed and Mine have no effect.
func (j *Journal) PutMany(ctx context.Context, all []Write) ([]uint64, []error) {
	m := &many{j: j, seqs: make([]uint64, len(all)), errs: make([]error, len(all))}
	for from := 0; from < len(all); {
		to, bytes := from, 0
		for to < len(all) && to-from < windowMessages && (to == from || bytes+len(all[to].Data) <= windowBytes) {
			bytes += len(all[to].Data)
			to++
		}
		if !m.window(ctx, all[from:to], from) {
			err := m.errs[from]
			for i := to; i < len(all); i++ { // the server does not respond: these are not sent
				m.errs[i] = err
			}
			break
		}
		from = to
	}
	m.flush(ctx)
	return m.seqs, m.errs
}

// many is one call of PutMany.
type many struct {
	j    *Journal
	seqs []uint64
	errs []error
}

// window writes messages, the first of which has the index first, until each has a
// response, ctx ends, or the Journal's timeout has passed. It returns false if none has
// a response.
func (m *many) window(ctx context.Context, all []Write, first int) bool {
	ctx, cancel := m.j.bound(ctx)
	defer cancel()
	msgs := make([]*nats.Msg, len(all))
	open := make([]int, len(all))
	for i, w := range all {
		msgs[i], open[i] = m.j.message(w), i
	}
	for again := false; ; again = true {
		m.round(ctx, msgs, open, first, again)
		open = slices.DeleteFunc(open, func(i int) bool { return !errors.Is(m.errs[first+i], ErrUnavailable) })
		if len(open) == 0 || ctx.Err() != nil {
			return len(open) < len(all)
		}
		select {
		case <-ctx.Done():
			return len(open) < len(all)
		case <-time.After(pause):
		}
	}
}

// round sends the messages that are still open, once, and sets their results. With
// again set, an earlier try may already have been stored.
func (m *many) round(ctx context.Context, msgs []*nats.Msg, open []int, first int, again bool) {
	fail := func(which []int, err error) {
		for _, i := range which {
			m.errs[first+i] = err
		}
	}
	if m.j.life.Err() != nil {
		fail(open, ErrClosed)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, m.j.try())
	defer cancel()
	inbox := m.j.nc.NewInbox()
	sub, err := m.j.nc.SubscribeSync(inbox + ".*")
	if err != nil {
		fail(open, m.j.mapError(err))
		return
	}
	defer sub.Unsubscribe()
	fail(open, ErrUnavailable) // until there is a response
	waiting := 0
	for _, i := range open {
		msgs[i].Reply = inbox + "." + strconv.Itoa(i)
		if err := m.j.nc.PublishMsg(msgs[i]); err != nil {
			m.errs[first+i] = m.j.mapError(err)
			continue
		}
		waiting++
	}
	answered := make(map[int]bool, waiting)
	for len(answered) < waiting {
		answer, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			err = m.j.mapError(err)
			for _, i := range open {
				if !answered[i] && errors.Is(m.errs[first+i], ErrUnavailable) {
					m.errs[first+i] = err
				}
			}
			return
		}
		i, err := strconv.Atoi(answer.Subject[len(inbox)+1:])
		if err != nil || i < 0 || i >= len(msgs) || answered[i] {
			continue // not a response to this call
		}
		answered[i] = true
		m.seqs[first+i], m.errs[first+i] = m.result(ctx, msgs[i], answer, again)
	}
}

// result decodes the response to one message.
func (m *many) result(ctx context.Context, msg, answer *nats.Msg, again bool) (uint64, error) {
	if len(answer.Data) == 0 && answer.Header.Get("Status") == "503" {
		return 0, m.j.mapError(nats.ErrNoResponders)
	}
	seq, err := m.j.acked(answer.Data)
	if again && errors.Is(err, ErrStale) {
		return m.j.mine(ctx, msg)
	}
	return seq, err
}

// flush waits until the stored messages are on the disk. If it fails, none of them is
// reported as written.
func (m *many) flush(ctx context.Context) {
	if !m.j.flushes || !slices.ContainsFunc(m.errs, func(err error) bool { return err == nil }) {
		return
	}
	err := m.j.patiently(ctx, m.j.flush)
	if err == nil {
		return
	}
	for i := range m.errs {
		if m.errs[i] == nil {
			m.errs[i] = err
		}
	}
}
