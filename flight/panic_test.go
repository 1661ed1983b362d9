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

func TestF6PanicErrorPrintsValueAndLogsStack(t *testing.T) {
	tell(t, func(s *story) {
		_, err := s.Do(s.Context(), "k", func(context.Context) (int, error) { panic("boom") })
		if err.Error() != "weir: the load panicked: boom" {
			s.Errorf("Error() = %q; want the value and no stack", err)
		}
		var p *flight.PanicError
		if !errors.As(err, &p) || !strings.Contains(p.LogValue().String(), "boom") || !strings.Contains(p.LogValue().String(), "panic_test.go") {
			s.Errorf("LogValue of %v; want the value and the stack", err)
		}
	})
}
