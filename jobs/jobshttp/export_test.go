package jobshttp

import (
	"context"
	"net/http"
	"time"

	"github.com/weir-go/weir/once"
)

// ReadPrefer is readPrefer, for fuzzing.
func ReadPrefer(lines ...string) (async, waits bool, wait time.Duration) {
	p := readPrefer(http.Header{"Prefer": lines})
	return p.async, p.waits, p.wait
}

// IdempotencyKey is once.Key, for fuzzing.
func IdempotencyKey(lines ...string) (string, error) {
	return once.Key(http.Header{"Idempotency-Key": lines})
}

// VerdictOn is verdictOn.
func VerdictOn(err error) (status int, retryAfter time.Duration) {
	v := verdictOn(err)
	return v.status, v.retryAfter
}

// Rebuild calls Request.request.
func Rebuild(q Request) (*http.Request, error) { return q.request(context.Background()) }

// RetryAfter is retryAfter, for fuzzing.
func RetryAfter(lines ...string) time.Duration {
	return retryAfter(http.Header{"Retry-After": lines}, missing)
}

// missing is what RetryAfter returns if the field cannot be parsed.
const missing = -time.Second

// LabelOf returns the label of the job of a request.
func LabelOf(method, target string) string { return Request{Method: method, Target: target}.label() }
