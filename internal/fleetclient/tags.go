package fleetclient

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/internal/wait"
)

// InvalidateTags invalidates tags for the whole fleet; "" means the whole
// namespace. Tags that the engine does not acknowledge become pending, and the
// error is a *fleet.PendingError.
func (c *Client) InvalidateTags(ctx context.Context, tags ...string) error {
	return c.order(ctx, false, tags)
}

// ExpireTags ends the freshness of tags for the whole fleet. Otherwise it is like
// InvalidateTags.
func (c *Client) ExpireTags(ctx context.Context, tags ...string) error {
	return c.order(ctx, true, tags)
}

func (c *Client) order(ctx context.Context, expire bool, tags []string) (err error) {
	long := func(tag string) bool { return len(tag) > fleet.MaxName }
	if i := slices.IndexFunc(tags, long); i >= 0 {
		_, wrong := c.o.Tier.InvalidateTags(ctx, c.o.Namespace, tags[i:i+1], c.o.TagKeep) // returns the Tier's error
		tags = slices.DeleteFunc(slices.Clone(tags), long)                                // no instance accepts values with such a tag
		defer func() { err = cmp.Or(err, wrong) }()
	}
	left := tags
	defer func() { // ctx comes from the user, and may panic
		if len(left) > 0 {
			about := make([]subject, len(left))
			for i, tag := range left {
				about[i] = subject{tag, true}
			}
			err = c.owe(c.counted(err), expire, about...)
		}
	}()
	for some := range slices.Chunk(tags, fleet.MaxTags) {
		c.count.writes.Add(1)
		if _, err := c.orderTags(ctx, expire, some...); err != nil {
			return err
		}
		left = left[len(some):]
	}
	return nil
}

// orderTags calls Tier.InvalidateTags or ExpireTags, and records the result.
func (c *Client) orderTags(ctx context.Context, expire bool, tags ...string) (uint64, error) {
	known, turn := c.numbers()
	call := c.o.Tier.InvalidateTags
	if expire {
		call = c.o.Tier.ExpireTags
	}
	seq, err := call(ctx, c.o.Namespace, tags, c.o.TagKeep)
	if err != nil {
		return 0, err
	}
	if seq <= known {
		c.lose(turn)
	}
	for _, tag := range tags {
		c.tagged(tag, seq, expire)
		c.noteOwn(change{name: tag, tag: seq})
	}
	return seq, nil
}

// tagged records an invalidation or expiry by tag.
func (c *Client) tagged(tag string, seq uint64, expired bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastTag, c.tagSeq = max(c.lastTag, seq), max(c.tagSeq, seq)
	switch {
	case tag != "":
	case expired:
		c.expired = max(c.expired, seq)
	default:
		c.cleared = max(c.cleared, seq)
	}
}

// numbers returns the number of the last known invalidation, and the turn of
// history.
func (c *Client) numbers() (last, turn uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lastTag, c.history.turns
}

// known records the number of the last invalidation: a load that begins from now
// on takes it into account, even if its push was lost.
func (c *Client) known(last uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastTag, c.tagSeq = max(c.lastTag, last), max(c.tagSeq, last)
}

// TagSeq returns the number for a Value whose load begins now: that of the last
// invalidation by tag known here. Later ones may exist; they count as if they had
// come after the start of the load. Numbers from before a Reset do not count,
// because they may belong to a history that the engine has lost.
func (c *Client) TagSeq() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tagSeq
}

// sync reads the numbers of invalidations, unless they are known and not older
// than Options.Recheck. A caller that arrives during a read waits for it: without
// the numbers, an entry that was cleared long ago would look valid.
func (c *Client) sync(ctx context.Context) error {
	for {
		c.mu.Lock()
		if c.synced && (c.o.Recheck <= 0 || time.Since(c.syncedAt) < c.o.Recheck) {
			c.mu.Unlock()
			return nil
		}
		r := c.syncing
		if r == nil {
			r = &tagRead{done: make(chan struct{}), missed: c.missed}
			c.syncing = r
			c.mu.Unlock()
			c.readTags(ctx, r)
			if r.err != nil {
				return r.err
			}
			continue // there may have been a Reset in between
		}
		c.mu.Unlock()
		select {
		case <-r.done:
			if errors.Is(r.err, fleet.ErrUnavailable) { // separate calls would each wait as long again
				return r.err
			} // otherwise, the reader's context may have ended
		case <-ctx.Done():
			return wait.Cause(ctx)
		}
	}
}

// A tagRead is a sync in flight.
type tagRead struct {
	done   chan struct{} // closed when err is final
	missed uint64        // Client.missed when it began
	err    error         // written before done is closed, read only after
}

// readTags performs the read for sync. The numbers count as known unless changes
// may have been missed during the read.
func (c *Client) readTags(ctx context.Context, r *tagRead) {
	c.count.tagReads.Add(1)
	asked := time.Now()
	known, turn := c.numbers()
	s, err := c.o.Tier.Tags(ctx, c.o.Namespace, []string{""})
	if err == nil && (len(s.Each) != 1 || len(s.Expired) != 1) {
		err = &fleet.UnavailableError{Op: "tags", Err: fleet.ErrWire}
	}
	if err == nil && s.Last < known {
		c.lose(turn)
		err = &fleet.UnavailableError{Op: "tags", Err: errHistory}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.syncing, r.err = nil, err
	close(r.done)
	if err != nil {
		return
	}
	c.lastTag, c.tagSeq, c.cleared = max(c.lastTag, s.Last), max(c.tagSeq, s.Last), max(c.cleared, s.Each[0])
	c.expired = max(c.expired, s.Expired[0])
	c.synced, c.syncedAt = r.missed == c.missed, asked
}

// A standing is the effect of invalidations on a value since its load began.
type standing struct {
	gone    bool   // invalidated: the value must not be used
	expired uint64 // the number of the expiry that ended its freshness; 0 if none
}

// expire records the number of an expiry that affects the value. The lowest
// number counts: it ended the freshness.
func (s *standing) expire(seq, tagSeq uint64) {
	if seq > tagSeq && (s.expired == 0 || seq < s.expired) {
		s.expired = seq
	}
}

// standing returns the effect on a value of invalidations and expiries by tag
// since its load began. For a value with tags, an order counts everywhere as soon
// as its call has returned. For a value without tags, an order for the whole
// namespace counts once its push has arrived, because a command per answer is not
// worth the cost.
func (c *Client) standing(ctx context.Context, v *fleet.Value) (s standing, err error) {
	c.mu.Lock()
	s.gone = v.TagSeq < c.cleared
	s.expire(c.expired, v.TagSeq)
	c.mu.Unlock()
	if s.gone || len(v.Tags) == 0 {
		return s, nil
	}
	if c.yieldTags(ctx, v.Tags) != nil {
		return standing{gone: true}, nil
	}
	for tags := range slices.Chunk(append([]string{""}, v.Tags...), fleet.MaxTags) {
		c.count.tagReads.Add(1)
		known, turn := c.numbers()
		state, err := c.o.Tier.Tags(ctx, c.o.Namespace, tags)
		if err != nil {
			return standing{}, err
		}
		if state.Last < known {
			c.lose(turn)
			return standing{gone: true}, nil
		}
		c.known(state.Last)
		if len(state.Each) != len(tags) || len(state.Expired) != len(tags) || slices.Max(state.Each) > v.TagSeq {
			return standing{gone: true}, nil
		}
		for _, seq := range state.Expired {
			s.expire(seq, v.TagSeq)
		}
	}
	return s, nil
}
