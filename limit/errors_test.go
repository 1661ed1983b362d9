package limit_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weir-go/weir/limit"
)

func TestErrorText(t *testing.T) {
	for _, tt := range []struct {
		err  limit.Error
		want string
	}{
		{limit.Error{Limiter: "db", Reason: limit.QueueFull, RetryAfter: time.Second}, `limit: "db": queue full, retry after 1s`},
		{limit.Error{Reason: limit.RateExceeded, RetryAfter: 1}, `limit: rate exceeded, retry after 1ns`},
		{limit.Error{Reason: limit.QueueTimeout, RetryAfter: 1}, `limit: queue timeout, retry after 1ns`},
		{limit.Error{Reason: limit.WaitTooLong, RetryAfter: 1}, `limit: wait outlasts the deadline, retry after 1ns`},
		{limit.Error{Reason: limit.NoSpare, RetryAfter: 1}, `limit: nothing to spare for background work, retry after 1ns`},
		{limit.Error{Reason: 99, RetryAfter: 1}, `limit: reason(99), retry after 1ns`},
		{limit.Error{RetryAfter: 1}, `limit: reason(0), retry after 1ns`},
	} {
		if got := tt.err.Error(); got != tt.want {
			t.Errorf("Error() = %q; want %q", got, tt.want)
		}
	}
}

func TestErrorIsLimitedAlsoWhenWrapped(t *testing.T) {
	err := fmt.Errorf("load: %w", &limit.Error{Reason: limit.WaitTooLong, RetryAfter: 1})
	if !errors.Is(err, limit.ErrLimited) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v matches another error, or not ErrLimited; want only ErrLimited", err)
	}
}
