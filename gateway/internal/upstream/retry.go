package upstream

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/weir-go/weir/gateway/internal/fault"
)

// arrived counts r as a call, and returns how it may be tried again.
func (p *Pool) arrived(r *http.Request) Retry {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.budget.call(time.Now())
	retry := p.o.Retry
	if !bodyless(r) || !slices.Contains(retry.Methods, r.Method) {
		retry.Attempts = 1
	}
	return retry
}

func bodyless(r *http.Request) bool { return r.Body == nil || r.Body == http.NoBody }

// again reports whether a request is tried once more after its nth call, which
// ended with resp and err, and how long to wait before. It takes the retry off
// the budget.
//
// The request holds the permit of its limiter over all its calls, so that
// retries add nothing to how many run at once; the budget bounds what they add
// to how many there are.
func (p *Pool) again(ctx context.Context, retry Retry, n int, resp *http.Response, err error) (wait time.Duration, ok bool) {
	if n >= retry.Attempts || ctx.Err() != nil {
		return 0, false
	}
	if err == nil && !slices.Contains(retry.On, resp.StatusCode) {
		return 0, false
	}
	if err != nil && !fault.Upstreams(err) {
		return 0, false // what is wrong with the request stays wrong
	}
	wait = p.env.Jitter(retry.Backoff << (n - 1))
	if t, ok := ctx.Deadline(); ok && time.Until(t) <= wait {
		return 0, false // what there is is better than nothing
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

// budgetLeast is how many retries there may be in 10 s, however few calls.
const budgetLeast = 3

// A budget bounds retries to a share of the calls of the last 10 s. It counts by
// the second, the present one and the 10 before, so that no 10 s anywhere have
// more than they should.
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

// spend counts a retry if there may be one, with so many for each 100 calls.
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
