package otlp

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Failures are logged once a minute, with their number, and so is the recovery.
func TestFailuresAreToldOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		c := newComplaints(slog.New(slog.NewTextHandler(&log, nil)))
		lines := func() (n int) {
			defer log.Reset()
			return strings.Count(log.String(), "\n")
		}
		c.note("metrics", nil)
		if n := lines(); n != 0 {
			t.Errorf("successful exports have %d log lines; want none", n)
		}
		for range 100 {
			c.note("metrics", errors.New("away"))
		}
		c.note("traces", errors.New("away"))
		if n := lines(); n != 2 {
			t.Errorf("100 failures of metrics and one of traces have %d log lines; want one each", n)
		}
		time.Sleep(complaintEvery)
		c.note("metrics", errors.New("away"))
		if text := log.String(); !strings.Contains(text, "times_before=99") {
			t.Errorf("after a minute the log is %q; want the failures not logged before", text)
		}
		lines()
		c.note("metrics", nil)
		c.note("metrics", nil)
		if text := log.String(); strings.Count(text, "sent again") != 1 || !strings.Contains(text, "what=metrics") {
			t.Errorf("the log is %q; want one line about the recovery", text)
		}
	})
}
