package jobs

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/weir-go/weir/flight"
)

// J26: the error of a job, which clients see, has no stack; Observers find it.
func TestJ26_ThePanicOfAHandlerHasNoStackInItsText(t *testing.T) {
	err := error(&PanicError{Value: fs.ErrNotExist, Stack: []byte("goroutine 7 [running]")})
	var p *flight.PanicError
	if err.Error() != "handler panicked: file does not exist" || !errors.As(err, &p) || !strings.Contains(string(p.Stack), "goroutine") || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, %+v; want the value alone in the text, and the stack in a PanicError that matches nothing", err, p)
	}
}
