package scenarios

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/limit"
)

// answerError writes the response to a request whose call failed. The statuses are
// those of decision 0004.
func answerError(w http.ResponseWriter, err error) {
	var refused *limit.Error
	var panicked *weir.PanicError
	status := http.StatusBadGateway
	switch {
	case errors.As(err, &refused):
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(refused.RetryAfter.Seconds()))))
		status = http.StatusServiceUnavailable
	case errors.Is(err, weir.ErrStuck):
		w.Header().Set("Retry-After", "1")
		status = http.StatusServiceUnavailable
	case errors.Is(err, context.DeadlineExceeded):
		status = http.StatusGatewayTimeout
	case errors.As(err, &panicked):
		status = http.StatusInternalServerError
	}
	http.Error(w, err.Error(), status)
}
