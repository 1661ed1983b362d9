package weirhttp

import (
	"errors"
	"time"

	"github.com/weir-go/weir/internal/stream"
)

// What is remembered of a failing origin (decision 0025) belongs to the stored
// response that is given meanwhile: it is bounded as the store is, it knows
// variants apart, and it goes with the response that a success brings.

// cooled answers c with what is stored for it, stale, if the last call failed a
// moment ago, and reports whether it did. Else c may have got a turn to try.
func (c *call) cooled() bool {
	s := c.stale
	if s == nil || c.due || c.h.o.Cooling < 0 {
		return false
	}
	f := s.Failing.Load()
	// What is known to have a successor elsewhere in the fleet is worth a call.
	if f == nil || s.Checked.Load() < 0 {
		return false
	}
	st := c.standing()
	if !st.IfError && (!st.Offline || !unreachable(f.Err)) {
		return false // there is nothing else for c than a call
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

// giveBack ends c's turn, if its call has said nothing about the origin.
func (c *call) giveBack() {
	if c.turn != nil {
		c.tries.GiveBack(c.turn, time.Now())
	}
}

// detailCooling is the detail of answers for which no call was made, as the last
// one failed.
const detailCooling = "cooling"

// fails remembers that a call for c has failed with err, if that is the origin's.
func (c *call) fails(err error) {
	if o := &c.h.o; o.Cooling >= 0 && !c.noted && counts(err) {
		c.stale.Fails(err, time.Now(), o.Cooling, o.MaxCooling)
	}
}

// tells remembers how f's call has ended: with err, or with that status.
func (f *flight) tells(status int, err error) {
	o := &f.group.handler.o
	switch {
	case f.known == nil || o.Cooling < 0:
	case err == nil && !isError(status):
		f.known.Recovers()
	case err == nil:
		f.known.Fails(errStatus(status), time.Now(), o.Cooling, o.MaxCooling)
	case counts(err) && !errors.Is(err, stream.ErrNobody):
		f.known.Fails(err, time.Now(), o.Cooling, o.MaxCooling)
	}
}
