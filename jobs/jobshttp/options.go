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
)

// Defaults and bounds of the options.
const (
	DefaultPath           = "/.weir/jobs/"
	DefaultMaxWait        = 30 * time.Second
	DefaultAttempts       = jobs.DefaultMaxAttempts
	DefaultUnsafeAttempts = 1
	DefaultMaxBody        = 512 << 10
	DefaultMaxResult      = 512 << 10
	DefaultHeartbeat      = 15 * time.Second

	MaxWait = 10 * time.Minute             // of RouteOptions.MaxWait and Budget
	MaxBody = jobs.MaxPayload - 2*headRoom // of RouteOptions.MaxBody and MaxResult
)

// Options are of a Service.
type Options struct {
	// Path is the prefix of the URLs of jobs: it begins and ends with "/".
	// Default: DefaultPath.
	Path string

	// Heartbeat is how often an event stream in which nothing happens sends a
	// comment, so that nothing on the way takes it for dead. Default:
	// DefaultHeartbeat.
	Heartbeat time.Duration
}

// RouteOptions say which requests become jobs, and what becomes of these.
type RouteOptions struct {
	// Budget makes a job of every request, also of those that do not ask for it:
	// one that takes longer is answered with 202. 0: only those with Prefer:
	// respond-async become jobs. At most MaxWait.
	Budget time.Duration

	// MaxWait caps Prefer: wait=N. Default: DefaultMaxWait, at most MaxWait.
	MaxWait time.Duration

	// Attempts is how often the handler is called at most for one job. Default:
	// DefaultAttempts.
	Attempts int

	// UnsafeAttempts is that for requests of an unsafe method without
	// Idempotency-Key: what was begun of them may have happened. Default:
	// DefaultUnsafeAttempts.
	UnsafeAttempts int

	// Formerly are names that the route had before. It answers for the jobs that were
	// accepted under them and runs those, and a request whose key has such a job joins
	// it. New jobs have the route's name. A name is of one route at a time, and only
	// the queues of a Route can be taken over.
	Formerly []string

	// Queue has MaxCrashes (with fewer attempts than that, their number), Lease,
	// AttemptTimeout, RetryInitial, RetryMax, ResultTTL,
	// DeadTTL, MaxQueued and MaxAge. The rest of it is set here.
	Queue jobs.QueueOptions

	// MaxBody and MaxResult bound the body of a request and of an answer, in
	// bytes: 413, and a job that fails. Defaults: DefaultMaxBody,
	// DefaultMaxResult.
	MaxBody, MaxResult int

	// Principal names what tells clients apart: request fields, and single cookies
	// as "cookie:NAME". A job belongs to the client that sent these, and others get
	// 404. nil means Authorization. The whole Cookie field is a bad choice: any new
	// cookie makes another client of the same user.
	//
	// A client that sends none of them is anonymous. Each of its requests is a job of
	// its own, with an ID that cannot be guessed: a client that has the address of the job
	// may read and cancel it. With an Idempotency-Key it is the key that nobody must
	// be able to guess.
	Principal []string

	// ShareAnonymous makes one job of safe requests that are alike, if they are
	// anonymous and send neither Authorization nor Cookie. All who ask get its
	// result, whatever its Cache-Control says, and nobody can cancel it. Without it
	// only the calls of such jobs are shared, where the handler is a cache that
	// coalesces, and as the response allows.
	ShareAnonymous bool

	// DropCredentials leaves Authorization, Cookie and the fields of Principal
	// out of what is stored, and so of the call too. Without it they are stored
	// in clear, in the job's input, for as long as the job is kept.
	DropCredentials bool

	// AskCache: the handler is a shared cache that knows Cache-Control:
	// only-if-cached and gives a weirhttp.Receipt, such as a weirhttp.Handler.
	// What it has fresh is answered without a job.
	AskCache bool
}

// nameForm is what the name of a route must be: with its suffix it is a queue's.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,59}$`)

// onceSuffix ends the name of the queue for what must not be repeated.
const onceSuffix = "-once"

// nameBound is that of a route's name, in words.
const nameBound = "1 to 59 letters, digits, - and _, without -once at the end"

// ValidName reports whether name can be that of a Route: 1 to 59 letters,
// digits, - and _, without "-once" at its end.
func ValidName(name string) bool {
	return nameForm.MatchString(name) && !strings.HasSuffix(name, onceSuffix)
}

// NameOf returns the name of the route that a queue is of, or would be of: each has
// two, its name and that with "-once" at the end.
func NameOf(queue string) string { return strings.TrimSuffix(queue, onceSuffix) }

// Validate returns all faults at once, each an *OptionError. Those of Queue are
// found by Service.Route.
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
		check(ok, "Formerly["+strconv.Itoa(i)+"]", strconv.Quote(name), nameBound+", and named once")
	}
	for i, name := range o.Principal {
		name = strings.TrimPrefix(name, cookiePrefix)
		ok := name != "" && strings.IndexFunc(name, func(c rune) bool { return c > 0x7f || !isTokenByte(byte(c)) }) < 0
		check(ok, "Principal["+strconv.Itoa(i)+"]", strconv.Quote(name), "the name of a field, or cookie:NAME")
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

// secret are the fields that are not stored.
func (o RouteOptions) secret() []string {
	if !o.DropCredentials {
		return nil
	}
	out := []string{"Authorization", "Cookie"}
	for _, name := range o.Principal {
		if !strings.HasPrefix(name, cookiePrefix) { // that is in Cookie
			out = append(out, name)
		}
	}
	return out
}
