package fleetsim_test

// The simulator of the fleet plays histories. Two to five instances come and go in
// front of one engine, a fleet.Memory, and one source; each instance is a Guard with
// its own Tier. A seed determines everything: the Options, who calls what and when,
// and what happens to each command and push on its way. Everything runs in a bubble,
// so hours take a moment and times are exact.
//
// # What goes wrong
//
//   - A command is delayed, lost, or executed and then its reply is lost. It may be
//     executed twice before its reply, or executed late although its deadline of 75
//     ms has passed. Delays differ, so commands overtake each other. A doubled
//     command is executed twice before its caller gets a reply; if its caller learned
//     that the Tier is unavailable, it may be executed after that. A copy that
//     arrives after the reply is not simulated: an old Write would then undo a newer
//     one, and no engine could detect that.
//   - A push is late, doubled, out of order, or lost: silently, or together with the
//     connection, which Lost and Reset report.
//   - An instance is cut off, entirely or for pushes only, and its commands fail at
//     once or at their deadline. In some histories it uses a fleet.Breaker.
//   - An instance is paused for longer than its lease: its calls, replies, pushes and
//     loads wait, and then continue one after another. Its timers run, because a
//     bubble has one clock, but what they send waits, too.
//   - An instance crashes: its connection is dead before its Guard is closed, so that
//     nothing is settled, and another with an empty memory takes its place.
//   - The source takes long, fails, panics, hangs beyond LoadTimeout, or ignores its
//     context. It reads its data at the beginning of a load or at the end.
//
// Clocks. In a bubble all instances share one clock, so skew is simulated in what is
// sent. Each link adds up to 15 minutes to every fence that its instance sees, and
// subtracts them from what it sends, so each instance sees the engine's clock with a
// different error. Every duration that is sent is checked against the Options, so an
// instant sent instead of a duration would be detected. This shows that no instant of
// one clock is compared with one of another. It cannot detect a Guard that reads a
// wall clock twice while it is stepped; entry.go uses only the monotonic one.
//
// # What must hold
//
// Each complaint begins with the name of its rule. The engine executes commands under
// one lock, so its history is a sequence, and "before" refers to that sequence. A
// value is born when its lease was granted, when its Set was executed, or, if it was
// loaded without a lease, when its load began. For invalidations by tag, it is born
// when its load began.
//
//   - value: every value was loaded or set for that key, unaltered.
//   - late: a caller that receives a loaded value was on the flight that loaded it: its
//     load ended after the call began, and began before the call ended.
//   - tier: each reply of the engine agrees with a second implementation of the
//     contract: who gets the lease, and what Extend and Settle do.
//   - fence, settle, back: fences of a key increase; a load settles under its own
//     lease; in the tier, a loaded version is never replaced by an older loaded
//     version. An instance never returns to an earlier state than one that it has
//     shown from its memory or from the tier.
//   - outdated: once an Invalidate, InvalidateTags, InvalidateAll, Set or Expire was
//     executed, a value born before it is not returned to calls that begin after the
//     instance knows of the write. It knows once its own call has returned nil, or
//     once it has received a push of this write or of a later one for the key. An
//     instance that has only received Reset, or a push of a later change, may serve
//     the value instead of an error, but not otherwise. After Set and Expire, an
//     older value may be served instead of an error; after Expire, it may also be
//     served within its stale-while-revalidate window. Until the instance knows, it
//     may return such a value only as follows: (a) from the tier, to calls that begin
//     within three commands (225 ms, and pauses) of the write, because a reply may
//     have been on its way; (b) from memory, for less than MemoryCap after the write,
//     or after the end of the load if that is later; (c) from its own flight, to
//     calls that begin before the flight's load has ended and settled. If values are
//     pushed, bound (b) also holds for those from the tier. For an
//     InvalidateAll whose push was lost silently, bounds (a) and (b) are longer by
//     MemoryCap, because that is how often the instance reads what was cleared.
//     Superseded results obey the same rule: they are returned to calls that began
//     before.
//   - age: nothing is served beyond the four instants of its entry (E1), counted from
//     the end of its load. If the entry went through the tier, the delays and pauses
//     on its way are added.
//   - loads: a load begins under a lease that its instance was granted, or just after
//     the Tier has failed the instance. It begins beside another load of its key only
//     if that one was given up or its instance crashed; or if one of the two has no
//     lease; or if one was invalidated by a write or a push; or if the other's
//     instance has lost a command, or was paused, since it got the lease. So if
//     nothing is lost and nothing is written, there is one load at a time.
//   - error: a caller gets its own deadline, or the result of a load of the key that
//     is no older than the longest memo or cooling; never an error of the Tier.
//   - write: a write that returned nil was executed; a write that fails returns an
//     unavailable error.
//   - lease: no instance gets a lease that lasts longer than Options.Lease, and no
//     lease is held at rest.
//   - clock, wire: nothing is sent that looks like a clock's time, or cannot be read.
//   - answer, end: every call returns, every Guard closes with nothing running, and
//     no goroutine is left, which the bubble ensures.
//   - commands: there is no storm of commands.
//
// # What a seed fixes
//
// A seed fixes what happens and at which instants. Every draw depends on the seed and
// on its purpose, not on earlier draws, so a shortened history stays almost the same.
// The scheduler decides the order of events within one instant. Delays are drawn to
// the nanosecond, so that few events share an instant. Callers that are woken
// together share an instant, so which of them loads next may differ, with all that
// follows. A failing seed may therefore have to be played a few times. With a
// Breaker, the moment of its probes is drawn separately.
