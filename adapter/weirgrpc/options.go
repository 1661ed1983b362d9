package weirgrpc

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/option"
)

// Defaults and bounds of Options.
const (
	DefaultName        = "grpc"   // Options.Name
	DefaultConcurrency = 256      // Options.Concurrency: concurrent calls
	DefaultStreams     = 1024     // Options.Streams: open streams
	DefaultMaxRequest  = 64 << 10 // Options.MaxRequest, in bytes
	DefaultMaxBytes    = 64 << 20 // of stored responses, per Policy
	MaxMethods         = 10_000   // in Options.Methods
	MaxCounted         = 1_000    // methods that Stats counts by name, besides those in Options.Methods
)

// An OptionError is a fault in an options struct.
type OptionError = option.Error

// Options configure a Server or a Client. The zero Options share nothing, and admit
// 256 calls and 1,024 streams at once.
type Options struct {
	// Name is the beginning of the names of all Guards and limiters. Empty:
	// DefaultName.
	Name string

	// Methods are the policies by method. A key is a full method name
	// ("/shop.v1.Catalog/GetItem"), a service with a slash at its end
	// ("/shop.v1.Catalog/") or "/" for all methods; the longest match applies. At
	// most MaxMethods.
	Methods map[string]Policy

	// Limiter admits executions of unary methods whose Policy has no Limiter. Nil: a
	// limit.Concurrency of DefaultConcurrency. For no limit use limit.All().
	Limiter limit.Limiter
	// Streams admits streams in the same way; a stream keeps its permit until it
	// ends. Nil: a limit.Concurrency of DefaultStreams without a queue.
	Streams limit.Limiter

	// ClientLimiter admits the calls and streams of one client, before anything else.
	// It is called on the goroutine of the call. An error that is a *limit.Error is
	// ResourceExhausted; see also [ClientError]. quota.KeyedLimiter.Allow fits. Nil:
	// all are admitted.
	ClientLimiter func(ctx context.Context, method string) error

	// PriorityKey is the metadata key with the class of a call in the limiters'
	// queues: "high", "normal" or "low". It is not part of a call's identity. The
	// caller chooses the value, so set PriorityKey only for callers that you trust.
	// Empty: the class is that of the context (limit.ContextWithPriority).
	PriorityKey string

	// IgnoreMetadata names metadata keys that are irrelevant for all methods. Calls
	// that differ in them are equal, and a shared execution does not see them. Nil:
	// DefaultIgnored; an empty list that is not nil: none.
	IgnoreMetadata []string

	// MaxRequest is the greatest size of a shared call in bytes: of its message and
	// its identity. A larger call shares nothing. Zero: DefaultMaxRequest.
	MaxRequest int

	// Observer is notified of executions, shared or not, and of rejections. Their
	// weir.LoadInfo.Key is a [Key]; that of a call that shares nothing has only the
	// Method. Nil costs nothing.
	Observer weir.Observer
}

// A Policy says how the calls of a method are treated. The zero Policy shares nothing.
type Policy struct {
	// Share says which methods are safe: executing one changes nothing, and its
	// response depends on nothing but the message and the identity of the call.
	Share Share

	// Guard configures what is kept of responses and shared, as for a weir.Guard. Name,
	// Limiter, Batch and Fleet.Codec must be empty: they are set by this package.
	// Without MaxEntries and MaxWeight, MaxWeight is DefaultMaxBytes; weights are in
	// bytes. NegativeTTL is for the code NotFound. Classify gets the errors that are
	// failures. Without Observer, it is Options.Observer.
	Guard weir.Options

	// Schema is the version of the messages, required with Guard.Fleet.Tier:
	// deterministic encoding is stable only within one build. Change it when the
	// definitions of the messages or the Policy change in meaning. At most 256 bytes.
	Schema string

	// Limiter admits executions and streams, instead of that of the Options. Nil:
	// those.
	Limiter limit.Limiter

	// Cost estimates what an execution or a stream costs, in units of your choice: Budget
	// counts these. For a stream with one request message, request is that message; for a
	// stream of the client or in both directions it is nil, as its messages come later. 0 or
	// less counts as 1. It is called on the goroutine of the call or of the shared
	// execution, possibly more than once, and must not keep request. Nil: cost is not
	// counted.
	Cost func(method string, request proto.Message) int
	// UsageKey is a metadata key under which the server states the cost in units, in
	// decimal digits: in the trailer, or else in the header. It is read from what the server
	// sends, also with an error, and never from what clients send. It requires Cost. Empty:
	// none.
	UsageKey string
	// Usage returns what an execution has cost, from its response, or false if that is
	// unknown. It is called for each message of a stream's responses, and the last one that
	// states a cost counts. It must not keep response, and requires Cost.
	//
	// What UsageKey states comes before what Usage returns. If nothing is stated, the
	// estimate stands, also for errors and streams that break. What the estimate had in
	// excess goes back to the Budget, what it lacked is owed.
	Usage func(method string, response proto.Message) (units int, ok bool)
	// Budget admits executions and streams by Cost, before Limiter admits them as calls. A
	// stream with one request message is admitted by it when that has been received, or
	// before a client sends it, after Limiter: a rejection is the error of RecvMsg or
	// SendMsg.
	// Responses from memory and calls that join an execution cost nothing. It requires
	// Cost.
	Budget limit.Limiter

	// Metadata names keys whose values are part of the identity.
	Metadata []string
	// IgnoreMetadata names keys that are irrelevant, in addition to
	// Options.IgnoreMetadata.
	IgnoreMetadata []string
	// With IgnoreAuthority the name under which the client calls the server
	// (:authority, and the server name of TLS) is irrelevant. Otherwise it is part of
	// the identity.
	IgnoreAuthority bool
	// Peer says what the identity of a peer, such as its certificate, means. It
	// concerns servers only. The address of a peer is never part of the identity.
	Peer PeerRule
	// Scope returns a further part of the identity, for example the tenant that an
	// earlier interceptor put into the context, or false for a call that must share
	// nothing. It is called on the goroutine of the call. Nil: no further part.
	Scope func(ctx context.Context, method string) (scope string, ok bool)
}

// A Share says which methods of a Policy are safe to share.
type Share uint8

const (
	// ShareNone shares nothing.
	ShareNone Share = iota
	// ShareNoSideEffects shares calls of methods whose definition has the option
	// idempotency_level = NO_SIDE_EFFECTS, and whose file is linked into the program.
	ShareNoSideEffects
	// ShareAll shares the calls of all unary methods.
	ShareAll
)

func (s Share) String() string {
	switch s {
	case ShareNone:
		return "none"
	case ShareNoSideEffects:
		return "no side effects"
	case ShareAll:
		return "all"
	}
	return "unknown"
}

// A PeerRule says what the identity of a peer means for sharing.
type PeerRule uint8

const (
	// PeerAlone lets calls of peers with an identity share nothing.
	PeerAlone PeerRule = iota
	// PeerInKey makes the certificates of a TLS peer part of the identity. Calls with
	// other kinds of credentials share nothing.
	PeerInKey
	// PeerIgnored declares the identity of peers irrelevant. A shared execution does
	// not see it.
	PeerIgnored
)

func (r PeerRule) String() string {
	switch r {
	case PeerAlone:
		return "alone"
	case PeerInKey:
		return "in key"
	case PeerIgnored:
		return "ignored"
	}
	return "unknown"
}

// DefaultIgnored returns the metadata keys that apply when Options.IgnoreMetadata is
// nil: those that grpc adds itself, and the identifiers of traces.
func DefaultIgnored() []string {
	return []string{
		"content-type", "user-agent", "te", "accept-encoding",
		"grpc-accept-encoding", "grpc-encoding", "grpc-message-type", "grpc-timeout",
		"grpc-previous-rpc-attempts", "grpc-trace-bin", "traceparent", "tracestate",
	}
}

// Validate returns all faults of o at once, joined by errors.Join, each an
// *OptionError; or nil. NewServer and NewClient call it.
func (o Options) Validate() error {
	f := &option.Faults{Package: "weirgrpc", Prefix: "Options."}
	f.Check(o.MaxRequest >= 0, "MaxRequest", o.MaxRequest, "0 (the default) or more")
	f.Check(o.PriorityKey == "" || validKey(o.PriorityKey), "PriorityKey", o.PriorityKey, "a metadata key in lower case, or empty")
	f.Check(len(o.Methods) <= MaxMethods, "Methods", fmt.Sprintf("%d policies", len(o.Methods)), fmt.Sprintf("at most %d", MaxMethods))
	checkKeys(f, "IgnoreMetadata", o.IgnoreMetadata)
	checkLimiter(f, "Limiter", o.Limiter)
	checkLimiter(f, "Streams", o.Streams)
	for _, pattern := range slices.Sorted(maps.Keys(o.Methods)) {
		o.Methods[pattern].check(f, fmt.Sprintf("Methods[%q]", pattern), pattern)
	}
	return f.Err()
}

// check adds the faults of p to f.
func (p Policy) check(f *option.Faults, at, pattern string) {
	f.Check(validPattern(pattern), "Methods", fmt.Sprintf("%q", pattern), `"/", "/package.Service/" or "/package.Service/Method"`)
	f.Check(p.Share <= ShareAll, at+".Share", uint8(p.Share), "ShareNone, ShareNoSideEffects or ShareAll")
	f.Check(p.Peer <= PeerIgnored, at+".Peer", uint8(p.Peer), "PeerAlone, PeerInKey or PeerIgnored")
	f.Check(p.Cost != nil || p.Usage == nil, at+".Usage", "given", "empty without Cost")
	f.Check(p.Cost != nil || p.UsageKey == "", at+".UsageKey", p.UsageKey, "empty without Cost")
	f.Check(p.UsageKey == "" || validKey(p.UsageKey) && !strings.HasSuffix(p.UsageKey, "-bin"), at+".UsageKey", fmt.Sprintf("%q", p.UsageKey),
		"a metadata key in lower case without -bin, or empty")
	f.Check(p.Cost != nil || p.Budget == nil, at+".Budget", "given", "empty without Cost")
	checkLimiter(f, at+".Limiter", p.Limiter)
	checkLimiter(f, at+".Budget", p.Budget)
	checkKeys(f, at+".Metadata", p.Metadata)
	checkKeys(f, at+".IgnoreMetadata", p.IgnoreMetadata)
	for _, k := range p.Metadata {
		f.Check(!slices.Contains(p.IgnoreMetadata, k), at+".IgnoreMetadata", k, "not in Metadata too")
	}
	const derived = "empty: it is set by weirgrpc"
	g := p.Guard
	f.Check(p.Share != ShareNone || reflect.ValueOf(g).IsZero(), at+".Guard", "given", "empty without Share")
	f.Check(g.Name == "", at+".Guard.Name", g.Name, derived)
	f.Check(g.Limiter == nil, at+".Guard.Limiter", "given", "empty: use Policy.Limiter")
	f.Check(g.Batch == weir.Batching{}, at+".Guard.Batch", "given", "empty: calls have no bulk form")
	f.Check(g.Fleet.Codec == nil, at+".Guard.Fleet.Codec", "given", derived)
	f.Check(g.Fleet.Tier == nil || p.Schema != "", at+".Schema", `""`, "given with Guard.Fleet.Tier: the version of the messages")
	f.Check(len(p.Schema) <= 256, at+".Schema", fmt.Sprintf("%d bytes long", len(p.Schema)), "at most 256 bytes")
	if g.Fleet.Tier != nil {
		g.Fleet.Namespace = cmp.Or(g.Fleet.Namespace, DefaultName)
	}
	f.Adopt(at+".Guard.", "Options.", g.Validate())
}

// checkLimiter adds the faults of l, which may be nil, to f.
func checkLimiter(f *option.Faults, field string, l limit.Limiter) {
	f.Add(limit.Validate(f.Package, f.Prefix+field, l))
}

func checkKeys(f *option.Faults, field string, keys []string) {
	for _, k := range keys {
		f.Check(validKey(k), field, fmt.Sprintf("%q", k), "a list of metadata keys in lower case")
	}
}

// validKey reports whether k can be a key of metadata.
func validKey(k string) bool {
	for i := range len(k) {
		switch c := k[i]; {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return k != ""
}

// validPattern reports whether s can be a key of Options.Methods.
func validPattern(s string) bool {
	rest, ok := strings.CutPrefix(s, "/")
	if !ok {
		return false
	}
	service, method, ok := strings.Cut(rest, "/")
	return rest == "" || ok && service != "" && !strings.Contains(method, "/")
}

// withDefaults returns o, which is valid, with all defaults set.
func (o Options) withDefaults() (Options, error) {
	o.Name = cmp.Or(o.Name, DefaultName)
	o.MaxRequest = cmp.Or(o.MaxRequest, DefaultMaxRequest)
	if o.IgnoreMetadata == nil {
		o.IgnoreMetadata = DefaultIgnored()
	}
	if o.PriorityKey != "" {
		o.IgnoreMetadata = append(slices.Clip(slices.Clone(o.IgnoreMetadata)), o.PriorityKey)
	}
	var err error
	if o.Limiter == nil {
		if o.Limiter, err = limit.NewConcurrency(limit.ConcurrencyOptions{Name: o.Name, Limit: DefaultConcurrency}); err != nil {
			return o, err
		}
	}
	if o.Streams == nil {
		o.Streams, err = limit.NewConcurrency(limit.ConcurrencyOptions{Name: o.Name + " streams", Limit: DefaultStreams, Queue: -1})
	}
	return o, err
}
