package jobshttp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/jobshttp"
)

func TestH23_PreferIsReadByRFC7240(t *testing.T) {
	const none = -time.Second
	for _, c := range []struct {
		lines []string
		async bool
		wait  time.Duration // none: no wait
	}{
		{nil, false, none},
		{[]string{"respond-async"}, true, none},
		{[]string{"Respond-Async, WAIT=5"}, true, 5 * time.Second},
		{[]string{"wait=5", "respond-async"}, true, 5 * time.Second},
		{[]string{`respond-async=""; a="b,c"; d ,wait = "7" ; x`}, true, 7 * time.Second},
		{[]string{"return=minimal; foo=\"some \\\"parameter, respond-async\""}, false, none},
		{[]string{"wait=1, wait=2", "wait=3"}, false, time.Second}, // the first one counts
		{[]string{"wait=x, wait=2"}, false, none},
		{[]string{"respond-async=no, respond-async"}, false, none},
		{[]string{"wait=-1"}, false, none},
		{[]string{"wait=1.5"}, false, none},
		{[]string{"wait"}, false, none},
		{[]string{"wait=99999999999999999999"}, false, 24 * time.Hour},
		{[]string{"a b, respond-async"}, true, none}, // a broken member does not affect the others
		{[]string{`"wait=1", respond-async`}, true, none},
		{[]string{`x="open, respond-async`}, false, none},
		{[]string{",, respond-async;;wait=1,"}, true, none},
		{[]string{"respond-asynchronously"}, false, none},
	} {
		async, waits, wait := jobshttp.ReadPrefer(c.lines...)
		if !waits {
			wait = none
		}
		if async != c.async || wait != c.wait {
			t.Errorf("Prefer: %q = %v, %v; want %v, %v", c.lines, async, wait, c.async, c.wait)
		}
	}
}

func FuzzPrefer(f *testing.F) {
	for _, s := range []string{"respond-async, wait=5", `a="b\"c";d=e`, `x="`, ";;=,", "wait=99999999999999999999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		async, waits, wait := jobshttp.ReadPrefer(s)
		if wait < 0 || wait > 24*time.Hour || !waits && wait != 0 {
			t.Errorf("Prefer: %q waits = %v, %v; want from 0 to 24h, and 0 without a wait", s, waits, wait)
		}
		if async && !strings.Contains(strings.ToLower(s), "respond-async") {
			t.Errorf("Prefer: %q is asynchronous; want respond-async in it", s)
		}
		if strings.ContainsAny(s, `"\`) {
			return
		}
		if again, _, _ := jobshttp.ReadPrefer(s, "respond-async"); async && !again {
			t.Errorf("Prefer: %q followed by respond-async is not asynchronous; want it as before", s)
		}
	})
}

func TestH23_IdempotencyKeyIsAString(t *testing.T) {
	for text, want := range map[string]string{
		`"a b"`: "a b", `"a\"\\"`: `a"\`, ` "x"; p=1;q="y";r`: "x", "token": "token", "a/b+c==": "a/b+c==",
		`"` + strings.Repeat("x", 255) + `"`: strings.Repeat("x", 255),
	} {
		if got, err := jobshttp.IdempotencyKey(text); got != want || err != nil {
			t.Errorf("Idempotency-Key: %s = %q, %v; want %q, nil", text, got, err, want)
		}
	}
	for _, text := range []string{``, `""`, `"`, `"a`, `"a" b`, `"a\n"`, `"a\`, "\"ä\"", "ä", "a,b", "a;b", `a"b`, `"a";`, `"a";B=1`, `"a";b=`, strings.Repeat("x", 256)} {
		if got, err := jobshttp.IdempotencyKey(text); err == nil {
			t.Errorf("Idempotency-Key: %s = %q, nil; want an error", text, got)
		}
	}
}

func FuzzIdempotencyKey(f *testing.F) {
	for _, s := range []string{`"a"`, `"a\"";b=c`, "token", `"`, `"\`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		key, err := jobshttp.IdempotencyKey(s)
		if err != nil {
			if key != "" {
				t.Errorf("Idempotency-Key: %q = %q, %v; want no key with an error", s, key, err)
			}
			return
		}
		if key == "" || len(key) > 255 {
			t.Errorf("Idempotency-Key: %q = %q; want 1 to 255 bytes", s, key)
		}
		quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
		if again, err := jobshttp.IdempotencyKey(quoted); again != key || err != nil {
			t.Errorf("Idempotency-Key: %s = %q, %v; want %q", quoted, again, err, key)
		}
	})
}

func TestH23_OneTableForErrors(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		after  time.Duration
	}{
		{&jobs.FullError{RetryAfter: 7 * time.Second}, http.StatusServiceUnavailable, 7 * time.Second},
		{jobs.ErrConflict, http.StatusUnprocessableEntity, 0},
		{&http.MaxBytesError{Limit: 1}, http.StatusRequestEntityTooLarge, 0},
		{jobs.ErrTooLarge, http.StatusRequestEntityTooLarge, 0},
		{&jobs.JobError{State: jobs.StateDead}, http.StatusBadGateway, 0},
		{jobs.ErrCanceled, http.StatusGone, 0},
		{jobs.ErrFinished, http.StatusConflict, 0},
		{jobs.ErrNotFound, http.StatusNotFound, 0},
		{jobs.ErrUnavailable, http.StatusServiceUnavailable, 2 * time.Second},
		{jobs.ErrClosed, http.StatusServiceUnavailable, 2 * time.Second},
		{context.DeadlineExceeded, http.StatusGatewayTimeout, 0},
		{errors.New("?"), http.StatusInternalServerError, 0},
	} {
		if status, after := jobshttp.VerdictOn(fmt.Errorf("wrapped: %w", c.err)); status != c.status || after != c.after {
			t.Errorf("verdict on %v = %d, %v; want %d, %v", c.err, status, after, c.status, c.after)
		}
	}
	if _, err := jobshttp.IdempotencyKey("a b"); err != nil {
		if status, _ := jobshttp.VerdictOn(err); status != http.StatusBadRequest {
			t.Errorf("verdict on %v = %d; want 400", err, status)
		}
	}
}

// C4: a job's error is visible to clients that must not see the request.
func TestC4_TargetsThatCannotBeReadAreNotTold(t *testing.T) {
	for _, target := range []string{"/a%zz?token=sesame8472", "a?token=sesame8472", "/\x7f?token=sesame8472", ""} {
		_, err := jobshttp.Rebuild(jobshttp.Request{Method: "GET", Target: target})
		if err == nil || strings.Contains(err.Error(), "sesame8472") || !strings.Contains(err.Error(), "the target of the request: ") {
			t.Errorf("Rebuild(%q) = %v; want an error without the target", target, err)
		}
	}
}

// Retry-After is seconds in digits, or one of HTTP's three date formats. Whatever a
// server sends, the wait is never negative, and a value that cannot be parsed counts
// as missing.
func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"", "0", "120", "-1", "+1", "1.5", "2147483647", "2147483648", "99999999999999999999", "1_0", " 1", "Fri, 31 Dec 1999 23:59:59 GMT",
		"Friday, 31-Dec-99 23:59:59 GMT", "Fri Dec 31 23:59:59 1999", "Fri, 31 Dec 9999 23:59:59 GMT", "Fri, 31 Dec 1999 23:59:59 CET", "1, 2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		before := time.Now()
		got := jobshttp.RetryAfter(s)
		const missing = -time.Second
		digits := s != "" && strings.Trim(s, "0123456789") == ""
		number, tooLong := strings.TrimLeft(s, "0"), false
		if digits {
			tooLong = len(number) > 10 || len(number) == 10 && number > "2147483647"
		}
		date, err := http.ParseTime(s)
		switch {
		case digits && !tooLong:
			if want, _ := time.ParseDuration("0" + number + "s"); got != want {
				t.Errorf("Retry-After: %q = %v; want %v", s, got, want)
			}
		case err == nil:
			if want := max(date.Sub(before), 0); got < 0 || got > want {
				t.Errorf("Retry-After: %q = %v; want at most %v", s, got, want)
			}
		case got != missing:
			t.Errorf("Retry-After: %q = %v; want the value for a missing field", s, got)
		}
		if second := jobshttp.RetryAfter(s, "7"); second != got && err != nil {
			t.Errorf("Retry-After: %q, then 7 = %v; want %v, from the first", s, second, got)
		}
	})
}

// The label of a job is its method and path: lists of jobs show it, so it has no query, no
// user and no hidden characters, and it is bounded.
func TestC4_LabelsAreMethodAndPath(t *testing.T) {
	for target, want := range map[string]string{
		"/reports/2026?token=secret":     "POST /reports/2026",
		"http://ada:secret@h.test/a/b?c": "POST /a/b",
		"http://h.test":                  "POST /",
		"/redirect/http://h.test/x":      "POST /redirect/http://h.test/x",
		"/a\x1b[31m":                     `POST /a\x1b[31m`,
		"/" + strings.Repeat("ü", 200):   "POST /" + strings.Repeat("ü", 123) + "…",
		"*":                              "POST *",
	} {
		got := jobshttp.LabelOf("POST", target)
		if got != want || len(got) > jobs.MaxLabel {
			t.Errorf("label of %q = %q (%d bytes); want %q", target, got, len(got), want)
		}
	}
}
