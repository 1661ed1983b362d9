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

	// Calls that could be shared.
	Hits     uint64 // got a fresh response from memory
	Stale    uint64 // got a stale one
	Joined   uint64 // waited for the execution of another call, or of another instance
	Executed uint64 // started an execution
	Failed   uint64 // got the failure of an execution, or left before its end

	Refused       uint64 // rejected by a limiter, or after Close
	RefusedClient uint64 // rejected by the limit of their client

	// Executions, shared or not, and streams that have ended without a response, by code.
	// They are the same classes as for a Guard and an Observer: NotFound is not-found, the
	// other codes that are responses are successful loads, and the rest are failures.
	NotFound uint64 // NotFound
	Declined uint64 // another code that is a response, such as PermissionDenied
	Failures uint64 // a code that is a failure, or a panic

	// Units of cost of calls that shared nothing, and of streams. Those of shared
	// executions are in the Stats of the Guard.
	CostSpent   uint64 // as stated, or else the estimate; after the end of the call
	CostRefused uint64 // the estimates of rejected ones

	NotShared NotShared

	ObserverPanics uint64 // outside of Guards, which count their own

	Running int // calls that share nothing, and streams, now
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
