package flight_test

import (
	"context"
	"errors"
	"fmt"
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

func TestF6PanicErrorHasTheStackAndDoesNotPrintIt(t *testing.T) {
	tell(t, func(s *story) {
		_, err := s.Do(s.Context(), "k", func(context.Context) (int, error) { panic("boom") })
		var p *flight.PanicError
		if !errors.As(err, &p) || !strings.Contains(string(p.Stack), "panic_test.go") {
			s.Errorf("got %v; want a PanicError with the stack", err)
		}
		for _, text := range []string{err.Error(), fmt.Sprintf("%v", err), fmt.Sprintf("%+v", err)} {
			if text != "weir: the load panicked: boom" {
				s.Errorf("the text is %q; want the value alone", text)
			}
		}
	})
}
