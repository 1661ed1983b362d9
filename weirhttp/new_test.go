package weirhttp_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/weir-go/weir/weirhttp"
)

// New reports a handler that is missing beside the faults of the options, and not each request.
func TestM4NewWithoutAHandler(t *testing.T) {
	for _, next := range []http.Handler{nil, http.HandlerFunc(nil)} {
		_, err := weirhttp.New(next, weirhttp.Options{MaxObject: -1})
		if err == nil || !errors.As(err, new(*weirhttp.OptionError)) {
			t.Fatalf("New(nil) = %v; want OptionErrors", err)
		}
		for _, field := range []string{"New.next", "Options.MaxObject"} {
			if !strings.Contains(err.Error(), field) {
				t.Errorf("New(nil) = %v; want a fault of %s", err, field)
			}
		}
	}
}
