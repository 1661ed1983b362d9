package demo

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weir-go/weir/limit"
)

func TestServiceAnswersFailuresWithTheirStatus(t *testing.T) {
	for _, tt := range []struct {
		name       string
		err        error
		code       int
		retryAfter string
	}{
		{"refused", &limit.Error{Reason: limit.QueueFull, RetryAfter: 1200 * time.Millisecond}, 503, "2"},
		{"wrapped refusal", fmt.Errorf("load: %w", &limit.Error{RetryAfter: time.Millisecond}), 503, "1"},
		{"deadline", context.DeadlineExceeded, 504, ""},
		{"anything else", errors.New("the source is down"), 502, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			refuse(w, tt.err)
			if got := w.Header().Get("Retry-After"); w.Code != tt.code || got != tt.retryAfter {
				t.Errorf("status, Retry-After = %d, %q; want %d, %q", w.Code, got, tt.code, tt.retryAfter)
			}
		})
	}
}
