package weirhttp

import (
	"errors"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/stream"
)

// The memory of a failing origin (decision 0025) belongs to the stored response that
// is served in the meantime. So it is bounded as the store is, it distinguishes
// variants, and it ends when a success replaces that response.

// cooled responds to c with the stored response, stale, if the last call failed a
// moment ago, and reports whether it did. Otherwise c may have got a turn to try a
// call.
func (c *call) cooled() bool {
	s := c.stale
	if s == nil || c.due || c.h.o.Cooling < 0 {
		return false
	}
	f := s.Failing.Load()
	// A response known to have a successor elsewhere in the fleet is worth a call.
	if f == nil || s.Checked.Load() < 0 {
		return false
	}
	st := c.standing()
	if !st.IfError && (!st.Offline || !unreachable(f.Err)) {
		return false // c needs a call in any case
	}
	turn, why := s.Try(time.Now())
	if why != nil {
		c.receipt.Detail = detailCooling
		c.stay(why)
		return true
	}
	if turn != nil {
		c.tries, c.turn = s, turn
	}
	return false
}

// giveBack ends c's turn, if its call showed nothing about the origin.
func (c *call) giveBack() {
	if c.turn != nil {
		c.tries.GiveBack(c.turn, time.Now())
	}
}

// detailCooling is the detail of responses for which no call was made because the
// last one failed.
const detailCooling = "cooling"

// detailDeadline is the detail of responses to calls whose server received the deadline of one
// client.
const detailDeadline = "deadline"

// detailLarge is the detail of responses that are larger than Options.MaxObject.
const detailLarge = "too big"

// fails remembers that a call for c has failed with err, if that is the origin's
// fault.
func (c *call) fails(err error) {
	if o := &c.h.o; o.Cooling >= 0 && !c.noted && counts(err) {
		c.stale.Fails(err, time.Now(), o.Cooling, o.MaxCooling, statedBy(err))
	}
}

// tells remembers how f's call has ended: with err, or with this status.
func (f *flight) tells(status int, err error) {
	o := &f.group.handler.o
	switch {
	case f.known == nil || o.Cooling < 0:
	case err == nil && !isError(status):
		f.known.Recovers()
	case err == nil:
		f.known.Fails(failed(status, f.stated), time.Now(), o.Cooling, o.MaxCooling, f.stated)
	case counts(err) && !errors.Is(err, stream.ErrNobody):
		f.known.Fails(err, time.Now(), o.Cooling, o.MaxCooling, 0)
	}
}

// statedBy returns the time that an error of the origin states, 0 for none.
func statedBy(err error) time.Duration {
	var stated *weir.RetryAfterError
	if errors.As(err, &stated) {
		return stated.After()
	}
	return 0
}
