package reports_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/plain/plaintest"
)

// M3: hidden characters in names and errors are escaped, and passwords are not
// logged.
func TestM3SlogObserverHidesNothing(t *testing.T) {
	for _, k := range plaintest.Kinds {
		var b bytes.Buffer
		o := weir.SlogObserver(slog.New(slog.NewJSONHandler(&b, nil)))
		o.Event(t.Context(), weir.Event{Kind: weir.EventStaleOnError, Guard: "g" + k.Hidden, Err: errors.New("get redis://:secret@a.test" + k.Hidden)})
		if found := plaintest.Find(b.String()); found != "" || strings.Contains(b.String(), "secret") || !strings.Contains(b.String(), strings.ReplaceAll(k.Shown, `\`, `\\`)) {
			t.Errorf("%s: logged %q, found %q; want it escaped, and no password", k.Name, b.String(), found)
		}
	}
}
