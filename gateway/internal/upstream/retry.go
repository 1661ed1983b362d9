package upstream

import (
	"context"
	"math"
	"net/http"
	"slices"
	"time"
)

// arrived returns how r may be retried. If there are retries, it counts r as a call.
func (a *attempts) arrived(r *http.Request) Retry {
	retry, p := a.now.o.Retry, a.t.pool
	a.most = math.MaxInt
	if f := a.t.fallback; f != nil {
		a.most = f.most()
	}
	if before, ok := sendsBefore(r.Context()); ok {
		a.most = max(mostSends-before, 1)
		if before > 0 {
			retry.Attempts = 1 // the request shares the budget of the other upstream
		}
	}
	if retry.Attempts > 1 || a.t.fallback.spends() {
		p.mu.Lock()
		p.budget.call(time.Now())
		p.mu.Unlock()
	}
	a.repeatable = bodyless(r) && slices.Contains(retry.Methods, r.Method)
	if !a.repeatable {
		retry.Attempts = 1
	}
	return retry
}

func bodyless(r *http.Request) bool { return r.Body == nil || r.Body == http.NoBody }

// again reports whether to retry a request after its nth call, which ended with
// resp and err, and how long to wait first. It charges the retry to the budget.
//
// The request holds its limiter's permit during all its calls, so retries do not
// raise the number of concurrent calls. The budget limits the total number of
// calls that they add.
func (p *Pool) again(ctx context.Context, retry *Retry, n int, resp *http.Response, err error) (wait time.Duration, ok bool) {
	if n >= retry.Attempts || ctx.Err() != nil {
		return 0, false
	}
	if !retry.repeats(resp, err) {
		return 0, false
	}
	wait = p.env.Jitter(retry.Backoff << (n - 1))
	if t, ok := ctx.Deadline(); ok && time.Until(t) <= wait {
		return 0, false // this response is better than none
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.budget.spend(time.Now(), retry.Budget) {
		p.noBudget++
		return 0, false
	}
	p.retries++
	return wait, true
}

// budgetLeast is the number of retries that are always allowed in 10 s.
const budgetLeast = 3

// A budget limits retries to a share of the calls of the last 10 s. It counts per second,
// for the current second and the 10 before it, so that no interval of 10 s exceeds the
// share.
type budget struct {
	seconds [11]struct {
		at             int64 // since 1970
		calls, retries int
	}
}

// call counts a call.
func (b *budget) call(now time.Time) {
	at := now.Unix()
	s := &b.seconds[at%int64(len(b.seconds))]
	if s.at != at {
		s.at, s.calls, s.retries = at, 0, 0
	}
	s.calls++
}

// spend counts a retry and reports true if one is allowed, given the budget per 100 calls.
func (b *budget) spend(now time.Time, percent int) bool {
	at := now.Unix()
	calls, retries := 0, 0
	for _, s := range b.seconds {
		if s.at > at-int64(len(b.seconds)) {
			calls += s.calls
			retries += s.retries
		}
	}
	if retries >= max(budgetLeast, calls*percent/100) {
		return false
	}
	s := &b.seconds[at%int64(len(b.seconds))]
	if s.at != at {
		s.at, s.calls, s.retries = at, 0, 0
	}
	s.retries++
	return true
}
