/*
Package weirgrpc puts the engine of weir in front of the methods of a gRPC server, or
in front of the calls of a gRPC client, as interceptors for google.golang.org/grpc.

	s, err := weirgrpc.NewServer(weirgrpc.Options{
		Methods: map[string]weirgrpc.Policy{
			"/shop.v1.Catalog/GetItem": {
				Share: weirgrpc.ShareAll,
				Guard: weir.Options{TTL: time.Minute, StaleIfError: time.Hour},
			},
		},
	})
	...
	server := grpc.NewServer(s.ServerOptions()...)

# Admission

Every call needs a permit while its handler runs: calls of unary methods from
Options.Limiter, streams from Options.Streams. A Policy can set another limiter for
its methods. Callers wait in the limiter's queue, each at most until its own deadline.
A rejected call gets the code Unavailable with a RetryInfo, or ResourceExhausted if
Options.ClientLimiter rejects it. The health service needs no permit.

# Sharing

Only a Policy with Share shares calls. Equal calls then share one execution and its
response, which is kept as the Policy's weir.Options say: fresh, stale, refreshed
ahead, shared by a fleet. The options mean the same as for a [weir.Guard].

Two calls are equal if they have the same method, the same message in deterministic
encoding, and the same identity. The identity is the authority, the values of
Policy.Metadata, the peer's certificate with PeerInKey, and the result of
Policy.Scope. A call shares nothing, and runs alone under admission, if

  - it carries metadata that is neither in Policy.Metadata nor declared irrelevant, or its
    context has such outgoing metadata from an earlier interceptor of a server;
  - its peer has an identity, such as a client certificate, and the Policy has no rule
    for it;
  - its request is no [proto.Message], embeds one, or is longer than Options.MaxRequest.

So a call with credentials in its metadata shares nothing unless the Policy names them.

# A shared execution

The handler runs on its own goroutine. Its context has the values of the first
caller's context, but neither its deadline nor its cancellation; it ends when the last
caller has left, or after Guard.LoadTimeout. Each caller leaves at its own deadline.

The handler sees only what all sharers have in common: a copy of the message, the
metadata of the key, and no address of a peer. Of a TLS connection it sees the names and
certificates that are in the key. Each caller gets its own copy of the
response. Header and trailer that the handler sets are recorded, and replayed to every
caller with its response. An early SendHeader is sent with the response.
[grpc.SetSendCompressor] fails in a shared execution; servers compress as the request
was compressed.

A response with a set-cookie in its header or trailer is given to the caller that
started the execution; callers that waited for it run alone. A handler can ask for the
same, and set a TTL and tags, with [SetDirectives].

# Errors

An error of a handler keeps its code, message and details. NotFound,
InvalidArgument, PermissionDenied and other codes that a retry does not change are
responses: all waiting callers get them, they replace a stored response, and only
NotFound can be kept, for Guard.NegativeTTL. Unavailable, Internal, Unknown,
DeadlineExceeded, ResourceExhausted, Aborted, DataLoss and Canceled are failures: a
stale response can be served instead. [Error] has the codes of weir's own errors. A
panic in a shared execution is Internal for its callers, without its value or stack;
Options.Observer gets the *weir.PanicError.

# Client

[NewClient] does the same before a call leaves. The credentials of a connection and of
a call are attached after interceptors, which therefore cannot see them. So a Client
only admits calls, unless ClientOptions.OneIdentity declares that all calls of its
connection have one identity.

# Observability

[Server.Stats] counts the calls of each method. Packages weirprom and weirotel export it
for a Server or Client that is added with AddInterceptor, with its Guards and limiters.
[Server.Guards] are for consoles, and [Server.Explain] reports why a call would share or
not.
*/
package weirgrpc
