package fleetsim_test

// The simulator of the fleet plays histories: two to five instances, each a
// Guard with a Tier of its own, come and go before one engine, a fleet.Memory, and
// one source. A seed decides everything: the Options, who calls what and when, and
// what becomes of each command and push on its way. It all runs in a bubble, so
// hours take a moment and instants are exact.
//
// # What goes wrong
//
//   - A command is delayed, lost, lost on the way back after it was executed,
//     executed twice before its answer, or late beyond its deadline of 75 ms and
//     executed nevertheless; delays differ, so commands overtake each other. A
//     doubled command is executed twice before its caller has an answer; one whose
//     caller learned that the Tier is unavailable may be executed after that. A
//     copy that comes after the answer is not played: a Write of old would then
//     undo a newer one, and no engine could know.
//   - A push is late, doubled, out of order, or lost: silently, or with the
//     connection, which Lost and Reset report.
//   - An instance is cut off, wholly or for pushes only, and its commands fail at
//     once or at their deadline; in some histories a fleet.Breaker stands before it.
//   - An instance stands still, beyond its lease: its calls, answers, pushes and
//     loads wait and then go on one after another. Its timers run, as a bubble has
//     one clock; what they send waits too.
//   - An instance crashes: its connection is dead before its Guard is closed, so
//     that nothing is settled, and another with an empty memory takes its place.
//   - The source takes long, fails, panics, hangs beyond LoadTimeout, ignores its
//     context, and reads its truth at the beginning of a load or at the end.
//
// Clocks. In a bubble all instances have one clock, so skew is shown in what
// travels: each link adds up to 15 minutes to every fence that its instance sees,
// and takes them off what it sends, so that each instance sees the engine's clock
// wrong by another amount; and every duration that is sent is held against the
// Options, so that an instant in the place of a duration would be seen. This shows
// that no instant of one clock is compared with one of another. It cannot show a
// Guard that reads a wall clock twice while it is stepped; entry.go keeps to the
// monotonic one.
//
// # What must hold
//
// A rule's name begins each complaint. The engine executes under one lock, so its
// history is a line, and "before" is before on that line. The birth of a value is
// when its lease was granted; of one that was set, when that was executed; of one
// that was loaded without a lease, when its load began. By tag, it is when the
// load began.
//
//   - value: a value is one that was loaded or set for that key, unaltered.
//   - late: who gets a loaded value gets that of a flight it was on: its load
//     ended after the call began and began before the call ended.
//   - tier: each answer of the engine is what a second reckoning of the contract
//     says: who gets the lease, what Extend and Settle do.
//   - fence, settle, back: fences of a key grow; a load settles under its own lease;
//     a load's version in the tier never gives way to a load's older one. What an
//     instance has shown from its memory or from the tier, it never goes back
//     behind.
//   - outdated: once an Invalidate, InvalidateTags, InvalidateAll, Set or Expire was
//     executed, a value that was born before it is not given to calls which begin
//     after the instance knows: its own call has returned nil, or a push of this
//     write or of a later one of the key has come. An instance that got Reset,
//     or of a later change, may serve it in place of an error, and nothing else.
//     After Set and Expire a value from before may stand in for an error; after
//     Expire it may also be served within its stale-while-revalidate window. Until
//     the instance knows:
//     (a) from the tier: not to calls that begin later than three commands (225 ms,
//     and pauses) after the write; this is for an answer that was on its way.
//     (b) from memory: less than MemoryCap after the write, or after the end of the
//     load where that is later. With an InvalidateAll whose push was lost silently both
//     bounds are longer by MemoryCap, as the instance reads what was cleared that
//     often.
//     (c) from a flight of its own: to calls that begin before its load has ended
//     and settled.
//     Superseded answers keep to the same: they come to calls from before.
//   - age: nothing is served beyond the four instants of its entry (E1), counted
//     from the end of its load; where it went through the tier, with the delays and
//     pauses on its way.
//   - loads: a load begins under a lease that its instance was granted, or just
//     when the Tier has failed the instance. It begins beside another of its key
//     only if that one was given up, or its instance crashed; or if one of the two
//     is without a lease; or if one was put out of date by a write or a push; or
//     if the other's instance has lost a command, or stood still, since it has the
//     lease. So where nothing is lost and nobody writes there is one at a time.
//   - error: a caller gets its own deadline, or what a load of the key has ended
//     with, not longer ago than the longest memo or cooling; never an error of the
//     Tier.
//   - write: a write that returned nil was executed; one that fails is unavailable.
//   - lease: no instance gets a lease that lasts longer than Options.Lease, and
//     none is held at rest.
//   - clock, wire: nothing is sent that looks like a clock's time, or cannot be
//     read.
//   - answer, end: every call is answered, every Guard closes with nothing running,
//     and no goroutine is left, which the bubble sees to.
//   - commands: there is no storm of them.
//
// # What a seed fixes
//
// What happens and at which instants; every draw depends on the seed and on what is
// drawn for, not on what came before, so a history that is shortened stays much the
// same. In which order things happen within one instant is the scheduler's; delays
// are drawn to the nanosecond, so that few share one. Callers that are woken together
// are in one instant, and who of them loads next may differ, and what follows from
// that: a seed that fails may have to be played a few times. With a Breaker, the
// moment of its probes is its own draw.
