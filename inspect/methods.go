package inspect

// MethodStats count the calls and streams of one gRPC method since the interceptors of
// its server or client were created, see adapter/weirgrpc. They are read one after
// another, so under traffic they may not add up exactly.
type MethodStats struct {
	// Method is the full name. It is "others" for the methods that are not counted by
	// name, which bounds the number of names, and keeps names that clients choose out of
	// metrics.
	Method string

	Calls   uint64 // calls and streams, including rejected ones
	Streams uint64 // streams that were admitted
	Alone   uint64 // calls that shared nothing, by reason in NotShared

	// What became of the calls and streams that have ended: each is in exactly one.
	Hits          uint64 // got a fresh response from memory
	Stale         uint64 // got a stale one
	Joined        uint64 // waited for the execution of another call
	Fleet         uint64 // got the response of another instance's execution
	Executed      uint64 // started an execution that could be shared, and got its response
	Ran           uint64 // shared nothing, and ended with any code; and streams
	Failed        uint64 // got the failure of a shared execution, or an error while they waited
	Refused       uint64 // rejected by a limiter, or after Close
	RefusedClient uint64 // rejected by the limit of their client
	Left          uint64 // canceled by their caller

	StaleOnError uint64 // of Stale: instead of an error, or of a long wait
	RanFailures  uint64 // of Ran: with a code that is in Failures

	// What callers received, except those that left.
	Responses MethodResponses

	// Executions, shared or not, and streams.
	Executions uint64
	Refreshes  uint64 // executions in the background, after a hit
	// Those that have ended without a response, by code. They are the same classes as for
	// a Guard and an Observer: NotFound is not-found, the other codes that are responses
	// are successful loads, and the rest are failures.
	NotFound  uint64 // NotFound
	Declined  uint64 // another code that is a response, such as PermissionDenied
	Failures  uint64 // a code that is a failure, or a panic
	Abandoned uint64 // Canceled, because no caller was waiting any more

	// Units of cost of calls that shared nothing, and of streams. Those of shared
	// executions are in the Stats of the Guard.
	CostSpent   uint64 // as stated, or else the estimate; after the end of the call
	CostRefused uint64 // the estimates of rejected ones

	NotShared NotShared // calls that shared nothing, by the reason

	ObserverPanics uint64 // outside of Guards, which count their own

	Running   int // calls that share nothing, and streams, now
	Executing int // shared executions, now

	// Durations without those of streams, whose length says nothing about the source.
	CallTime      Durations // of calls that have ended, except those whose caller left
	WaitTime      Durations // of calls that waited for a shared execution
	ExecutionTime Durations
}

// MethodResponses count what callers received, by the class of the code.
type MethodResponses struct {
	OK          uint64 // responses with code OK
	ClientError uint64 // a code that is a response, such as NotFound, or over the limit of the client
	ServerError uint64 // every other code
}

// NotShared counts calls that shared nothing, by reason.
type NotShared struct {
	NotSafe    uint64 // the method is not declared safe
	Metadata   uint64 // undeclared metadata
	Peer       uint64 // an identity of the peer without a rule
	Scope      uint64 // the policy's scope is unknown
	Message    uint64 // the message is no proto.Message
	Size       uint64 // larger than the bound of requests
	CallOption uint64 // a call option that is not known to be irrelevant
	Connection uint64 // no declared identity, or another connection
	Private    uint64 // the response that the call waited for was private
}
