package weirgrpc

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/limit"
)

// An engine is what a Server and a Client have in common.
type engine struct {
	o        Options
	policies map[string]*policy // by pattern
	rest     *policy            // of methods without a policy
	health   *policy            // of the health service, if it has no policy
	closed   atomic.Bool

	methods sync.Map // of string to *method
	known   atomic.Int64
	others  *method // counts methods that are not counted by name
}

// newEngine returns an engine under o. clone copies a response for each caller.
func newEngine(o Options, clone func(*response) *response) (*engine, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	e := &engine{o: o, policies: make(map[string]*policy, len(o.Methods))}
	e.rest, _ = newPolicy(&e.o, "", Policy{}, nil) // without a Guard there is no error
	e.health, _ = newPolicy(&e.o, healthService, Policy{Limiter: limit.All()}, nil)
	e.others = &method{name: "others", policy: e.rest}
	e.others.counts = &e.others.own
	for pattern, p := range o.Methods {
		if e.policies[pattern], err = newPolicy(&e.o, pattern, p, clone); err != nil {
			delete(e.policies, pattern)
			return nil, errors.Join(err, e.close(context.Background()))
		}
	}
	return e, nil
}

// policyOf returns the policy of the method called name.
func (e *engine) policyOf(name string) *policy {
	if p := e.policies[name]; p != nil {
		return p
	}
	service := name[:strings.LastIndexByte(name, '/')+1]
	switch p := e.policies[service]; {
	case p != nil:
		return p
	case service == healthService:
		return e.health
	}
	if p := e.policies["/"]; p != nil {
		return p
	}
	return e.rest
}

// method returns the method called name. implemented is false if any client can choose
// that name. Names are remembered and counted only if their number is bounded: up to
// MaxCounted that are implemented, and those of Options.Methods.
func (e *engine) method(name string, implemented bool) *method {
	if m, ok := e.methods.Load(name); ok {
		return m.(*method)
	}
	p := e.policyOf(name)
	m := &method{name: name, policy: p, safe: p.shares(name)}
	if p.pattern != name && (!implemented || !countable(name) || e.known.Load() >= MaxCounted) {
		m.counts = &e.others.own
		return m
	}
	m.counts = &m.own
	have, loaded := e.methods.LoadOrStore(name, m)
	if !loaded && p.pattern != name {
		e.known.Add(1)
	}
	return have.(*method)
}

// countable reports whether name can be the value of a label of metrics.
func countable(name string) bool {
	return strings.HasPrefix(name, "/") && len(name) <= maxCountedName && utf8.ValidString(name)
}

// maxCountedName is the maximum length of a name that is counted separately, in bytes.
const maxCountedName = 256

// enter admits the client of a call, and returns the context with its priority, which
// value has if the call has one in its metadata.
func (e *engine) enter(ctx context.Context, m *method, value []string) (context.Context, error) {
	m.counts.calls.Add(1)
	if e.o.ClientLimiter != nil {
		if err := e.o.ClientLimiter(ctx, m.name); err != nil {
			m.counts.refusedClient.Add(1)
			m.counts.clientErrors.Add(1)
			e.rejected(ctx, m, time.Now(), err)
			return ctx, failed(ctx, err, true)
		}
	}
	if len(value) == 1 {
		switch value[0] {
		case "high":
			ctx = limit.ContextWithPriority(ctx, limit.High)
		case "low":
			ctx = limit.ContextWithPriority(ctx, limit.Low)
		case "normal":
			ctx = limit.ContextWithPriority(ctx, limit.Normal)
		}
	}
	return ctx, nil
}

// answer counts what the caller of a call that has entered at began receives.
func (m *method) answer(ctx context.Context, began time.Time, err error) {
	m.counts.answered(ctx, err)
	if !hasLeft(ctx, err) {
		m.counts.callTime.Record(time.Since(began))
	}
}

// failed returns err, with which a call has failed, as its caller gets it.
func failed(ctx context.Context, err error, client bool) error {
	if over := ctx.Err(); over != nil && errors.Is(err, context.Cause(ctx)) {
		return status.FromContextError(over).Err()
	}
	return statusOf(err, client)
}

// admit gets a permit of that many units for a call or stream that is not shared; 0 if
// they are not counted.
func (e *engine) admit(ctx context.Context, m *method, by limit.Limiter, units int) (limit.Permit, error) {
	began := time.Now()
	if e.closed.Load() {
		m.counts.refused.Add(1)
		e.rejected(ctx, m, began, weir.ErrClosed)
		return limit.Permit{}, statusOf(weir.ErrClosed, false)
	}
	p, err := acquire(ctx, by, units)
	if err == nil {
		return p, nil
	}
	e.rejected(ctx, m, began, err)
	limited := errors.Is(err, limit.ErrLimited)
	err = failed(ctx, err, false)
	switch {
	case limited:
		m.counts.refused.Add(1)
		m.counts.costRefused.Add(uint64(units)) //nolint:gosec // never negative
	case !hasLeft(ctx, err):
		m.counts.failed.Add(1)
	}
	return limit.Permit{}, err
}

// A run executes a call that shares nothing. units is what it has cost, as
// weir.Entry.Cost has it.
type run func(ctx context.Context) (units int, err error)

// alone executes a call that shares nothing. A panic of do passes through.
func (e *engine) alone(ctx context.Context, m *method, req any, do run) error {
	m.counts.alone.Add(1)
	began := time.Now()
	units := m.units(req)
	p, err := e.admit(ctx, m, m.policy.unary, units)
	if err != nil {
		return err
	}
	seen := seen{ctx: ctx, e: e, m: m, queued: time.Since(began)}
	m.counts.executions.Add(1)
	m.counts.running.Add(1)
	start := time.Now()
	err = errBroken
	defer func() {
		m.counts.running.Add(-1)
		m.counts.executionTime.Record(time.Since(start))
		sent := statusOf(err, false)
		m.counts.ended(ctx, sent)
		m.counts.ranAlone(ctx, sent)
		m.counts.costSpent.Add(uint64(units)) //nolint:gosec // never negative
		if ctx.Err() != nil {
			p.Abandon()
		}
		p.Release(outcome(ctx, err))
		seen.end(err)
	}()
	seen.begin()
	var spent int
	if spent, err = do(seen.ctx); spent != 0 {
		units = max(spent, 0)
		p.Settle(units)
	}
	return statusOf(err, false)
}

// errBroken is the error of an execution that panicked or exited.
var errBroken = errors.New("weirgrpc: the handler did not return")

// outcome says how an execution has ended.
func outcome(ctx context.Context, err error) limit.Outcome {
	switch code := codeOf(err); {
	case err == errBroken: //nolint:errorlint // it is never wrapped
		return limit.Ignored
	case code == codes.DeadlineExceeded, code == codes.ResourceExhausted, errors.Is(err, limit.ErrLimited):
		return limit.Dropped
	case ctx.Err() != nil, code == codes.Canceled:
		return limit.Ignored
	}
	return limit.Success
}

// share gets a response for a call through the Guard of its policy. alone means that
// the call must run alone after all.
func (e *engine) share(ctx context.Context, m *method, key Key, x execution) (r *response, alone bool, err error) {
	began := time.Now()
	own := &started{execution: x, m: m}
	got := m.policy.guard.GetResult(context.WithValue(ctx, executionKey{}, own), key)
	if got.Source == weir.FromMemory && got.State != weir.StateStaleOnError {
		own.both()
	} else {
		m.counts.waitTime.Record(time.Since(began))
	}
	f := (*failure)(nil)
	switch r, ok := responseOf(got); {
	case ok && (r == nil || r.private && got.Joined):
		return nil, true, nil
	case ok:
		m.counts.shared(got)
		return r, false, r.err
	case errors.As(got.Err, &f):
		m.counts.failed.Add(1)
		return &response{header: f.header, trailer: f.trailer}, false, statusOf(f.err, false)
	case errors.Is(got.Err, limit.ErrLimited), errors.Is(got.Err, weir.ErrStuck), errors.Is(got.Err, weir.ErrClosed):
		m.counts.refused.Add(1)
	default:
		if err = failed(ctx, got.Err, false); !hasLeft(ctx, err) {
			m.counts.failed.Add(1)
		}
		return nil, false, err
	}
	return nil, false, failed(ctx, got.Err, false)
}

// guards returns the Guards of all policies.
func (e *engine) guards() []*weir.Guard[Key, *response] {
	var all []*weir.Guard[Key, *response]
	for _, p := range e.policies {
		if p.guard != nil {
			all = append(all, p.guard)
		}
	}
	return all
}

// close closes the Guards, all at once, because they share the time of ctx.
func (e *engine) close(ctx context.Context) error {
	e.closed.Store(true)
	all := e.guards()
	errs := make(chan error, len(all))
	for _, g := range all {
		go func() { errs <- g.Close(ctx) }() // ends with ctx at the latest; awaited below
	}
	var joined error
	for range all {
		joined = errors.Join(joined, <-errs)
	}
	return joined
}

// streamOutcome is how every stream ends for its limiter: its length says nothing about
// the speed of the source.
const streamOutcome = limit.Ignored
