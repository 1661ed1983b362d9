package flight_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/weir-go/weir/flight"
)

func TestF6NilFunctionIsAPanic(t *testing.T) {
	tell(t, func(s *story) {
		var p *flight.PanicError
		if v, err := s.Do(s.Context(), "k", nil); v != 0 || !errors.As(err, &p) {
			s.Errorf("Do(nil) = %d, %v; want 0 and a PanicError", v, err)
		}
		s.wantLen(0)
	})
}

func TestF6PanicErrorPrintsValueAndStack(t *testing.T) {
	tell(t, func(s *story) {
		_, err := s.Do(s.Context(), "k", func(context.Context) (int, error) { panic("boom") })
		for _, part := range []string{"weir: ", "boom", "panic_test.go"} {
			if !strings.Contains(err.Error(), part) {
				s.Errorf("Error() = %q; want it to contain %q", err, part)
			}
		}
	})
}
