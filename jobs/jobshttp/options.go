package jobshttp

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/option"
	"github.com/weir-go/weir/weirhttp"
)

// Defaults and bounds of the options.
const (
	DefaultPath           = "/.weir/jobs/"          // Options.Path
	DefaultMaxWait        = 30 * time.Second        // RouteOptions.MaxWait
	DefaultAttempts       = jobs.DefaultMaxAttempts // RouteOptions.Attempts
	DefaultUnsafeAttempts = 1                       // RouteOptions.UnsafeAttempts
	DefaultMaxBody        = 512 << 10               // RouteOptions.MaxBody
	DefaultMaxResult      = 512 << 10               // RouteOptions.MaxResult
	DefaultHeartbeat      = 15 * time.Second        // Options.Heartbeat

	MaxWait = 10 * time.Minute             // of RouteOptions.MaxWait and Budget
	MaxBody = jobs.MaxPayload - 2*headRoom // of RouteOptions.MaxBody and MaxResult
)

// Options configure a Service.
type Options struct {
	// Path is the prefix of the URLs of jobs: it begins and ends with "/".
	// Default: DefaultPath.
	Path string

	// Heartbeat is the interval at which an idle event stream sends a comment, so
	// that no proxy closes it as dead. Default: DefaultHeartbeat.
	Heartbeat time.Duration
}

// RouteOptions decide which requests become jobs, and how these run.
type RouteOptions struct {
	// Budget makes every request a job, with or without Prefer. A request that takes
	// longer gets 202. 0: only requests with Prefer: respond-async become jobs. At
	// most MaxWait.
	Budget time.Duration

	// MaxWait caps Prefer: wait=N. Default: DefaultMaxWait. At most the constant
	// MaxWait.
	MaxWait time.Duration

	// Attempts is the maximum number of calls of the handler for one job. Default:
	// DefaultAttempts.
	Attempts int

	// UnsafeAttempts is the same for requests with an unsafe method and without
	// Idempotency-Key: a failed attempt of these may have taken effect. Default:
	// DefaultUnsafeAttempts.
	UnsafeAttempts int

	// Formerly lists earlier names of the route. Jobs that were accepted under
	// an earlier name are served and run by the route. A request joins such a job if it has
	// the same key.
	// New jobs get the route's name. A name belongs to one route at a time, and only
	// the queues of a Route can be taken over.
	Formerly []string

	// Queue has MaxCrashes (capped at the number of attempts), Lease, AttemptTimeout,
	// RetryInitial, RetryMax, ResultTTL, DeadTTL, MaxQueued and MaxAge. Its other
	// fields are set by Service.Route.
	Queue jobs.QueueOptions

	// MaxBody and MaxResult bound the body of a request and of a response, in bytes.
	// A larger request gets 413, and a larger response fails the job. Defaults:
	// DefaultMaxBody, DefaultMaxResult.
	MaxBody, MaxResult int

	// Principal lists what distinguishes clients: request fields, and single cookies as
	// "cookie:NAME". A job belongs to the client that sent these, and others get 404.
	// nil means Authorization. The whole Cookie field is a bad choice: any new cookie
	// turns the same user into a different client.
	//
	// A client that sends none of them, or only empty values, is anonymous. Each of its
	// requests is a separate job, with an ID that cannot be guessed: any client that has
	// the job's address can read and cancel it. With an Idempotency-Key, the key must not
	// be guessable.
	Principal []string

	// ShareAnonymous combines equal safe requests into one job, if they are anonymous
	// and send neither Authorization nor Cookie. All these clients get its result,
	// whatever its Cache-Control says, and none can cancel it. Without ShareAnonymous
	// each has a job, and only the handler's calls can be shared: if it is a cache
	// that coalesces, and as the response allows.
	ShareAnonymous bool

	// Drop lists further fields that are omitted from the stored request, such as one in which a
	// client states for how long it waits. Fields of the connection, preferences, grpc-timeout
	// and the like are always omitted.
	Drop []string

	// DropCredentials omits Authorization, Cookie and the fields of Principal from
	// the stored request, and so from the handler's request. Without it they are
	// stored in plain text, in the job's input, for as long as the job is kept.
	DropCredentials bool

	// Reads declares requests with a body that only read: those of one client that are
	// the same read are one job, and a job is attempted as often as that of a GET. Set it
	// to the handler's weirhttp.Options.Reads.
	Reads []weirhttp.ReadRule

	// AskCache declares that the handler is a shared cache which understands
	// Cache-Control: only-if-cached and sets a weirhttp.Receipt, such as a
	// weirhttp.Handler. Its fresh responses are sent without a job.
	AskCache bool
}

// nameForm is the form of a route's name; with its suffix it is a queue's name.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,59}$`)

// onceSuffix ends the name of the queue for requests that must not be repeated.
const onceSuffix = "-once"

// nameBound describes the form of a route's name.
const nameBound = "1 to 59 letters, digits, - and _, without -once at the end"

// ValidName reports whether name is valid for a Route: 1 to 59 letters, digits, - and
// _, without "-once" at the end.
func ValidName(name string) bool {
	return nameForm.MatchString(name) && !strings.HasSuffix(name, onceSuffix)
}

// NameOf returns the name of the route to which a queue belongs, or would belong.
// Each route has two queues: one with its name, and one with "-once" added.
func NameOf(queue string) string { return strings.TrimSuffix(queue, onceSuffix) }

// Validate returns all faults at once, each an *OptionError. Service.Route checks the
// options in Queue.
func (o RouteOptions) Validate() error {
	f := option.Faults{Package: "jobshttp", Prefix: "RouteOptions."}
	check := f.Check
	span := fmt.Sprintf("from 0 to %v", MaxWait)
	check(o.Budget >= 0 && o.Budget <= MaxWait, "Budget", o.Budget, span)
	check(o.MaxWait >= 0 && o.MaxWait <= MaxWait, "MaxWait", o.MaxWait, span)
	attempts := fmt.Sprintf("from 0 to %d", jobs.MaxAttempts)
	check(o.Attempts >= 0 && o.Attempts <= jobs.MaxAttempts, "Attempts", o.Attempts, attempts)
	check(o.UnsafeAttempts >= 0 && o.UnsafeAttempts <= jobs.MaxAttempts, "UnsafeAttempts", o.UnsafeAttempts, attempts)
	size := fmt.Sprintf("from 0 to %d", MaxBody)
	check(o.MaxBody >= 0 && o.MaxBody <= MaxBody, "MaxBody", o.MaxBody, size)
	check(o.MaxResult >= 0 && o.MaxResult <= MaxBody, "MaxResult", o.MaxResult, size)
	for i, name := range o.Formerly {
		ok := ValidName(name) && !slices.Contains(o.Formerly[:i], name)
		check(ok, "Formerly["+strconv.Itoa(i)+"]", strconv.Quote(name), nameBound+" and without duplicates")
	}
	for i, name := range o.Principal {
		name = strings.TrimPrefix(name, cookiePrefix)
		ok := name != "" && strings.IndexFunc(name, func(c rune) bool { return c > 0x7f || !isTokenByte(byte(c)) }) < 0
		check(ok, "Principal["+strconv.Itoa(i)+"]", strconv.Quote(name), "the name of a field, or cookie:NAME")
	}
	if _, err := weirhttp.NewReads(o.Reads); err != nil {
		f.Add(err)
	}
	return f.Err()
}

func (o RouteOptions) withDefaults() RouteOptions {
	o.MaxWait = cmp.Or(o.MaxWait, DefaultMaxWait)
	o.Attempts = cmp.Or(o.Attempts, DefaultAttempts)
	o.UnsafeAttempts = cmp.Or(o.UnsafeAttempts, DefaultUnsafeAttempts)
	o.MaxBody = cmp.Or(o.MaxBody, DefaultMaxBody)
	o.MaxResult = cmp.Or(o.MaxResult, DefaultMaxResult)
	if o.Principal == nil {
		o.Principal = []string{"Authorization"}
	}
	o.Principal = canonical(o.Principal)
	o.Queue.MaxInput, o.Queue.MaxResult = o.MaxBody+headRoom, o.MaxResult+headRoom
	return o
}

// secret returns the fields that are not stored.
func (o RouteOptions) secret() []string {
	if !o.DropCredentials {
		return o.Drop
	}
	out := slices.Concat(o.Drop, []string{"Authorization", "Cookie"})
	for _, name := range o.Principal {
		if !strings.HasPrefix(name, cookiePrefix) { // covered by Cookie
			out = append(out, name)
		}
	}
	return out
}
