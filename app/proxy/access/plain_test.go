package access_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/weir-go/weir/app/proxy/access"
	"github.com/weir-go/weir/plain/plaintest"
	"github.com/weir-go/weir/weirhttp"
)

// Whatever a client or an origin sends, the log shows it, in each format.
func TestH21_AccessLogHidesNothing(t *testing.T) {
	for _, k := range plaintest.Kinds {
		s := "a" + k.Hidden + "b"
		r := request("/")
		r.Method, r.RequestURI, r.Host, r.Proto, r.RemoteAddr = s, "/"+s, s, s, s
		for _, name := range []string{"Referer", "User-Agent", "X-Request-Id"} {
			r.Header[name] = []string{s}
		}
		h := func(w http.ResponseWriter, r *http.Request) {
			w.(weirhttp.ReceiptWriter).SetReceipt(weirhttp.Receipt{Route: s, Outcome: weirhttp.OutcomeFailed, Err: errors.New(s), Forwarded: s})
			w.WriteHeader(502)
		}
		for _, format := range []access.Format{access.JSON, access.Text, access.Combined} {
			line := ask(t, access.Options{What: access.All, Format: format}, r, h)
			if found := plaintest.Find(line); found != "" || strings.Count(line, "\n") != 1 {
				t.Errorf("%s in %s: %q, found %q; want it escaped", k.Name, format, line, found)
			}
			if format != access.JSON {
				continue
			}
			var fields map[string]any
			if err := json.Unmarshal([]byte(line), &fields); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"client", "method", "host", "target", "proto", "forwarded", "route", "request_id", "error"} {
				if got, _ := fields[name].(string); !strings.Contains(got, "a"+k.Shown+"b") {
					t.Errorf("%s: %s is %q; want %q", k.Name, name, got, "a"+k.Shown+"b")
				}
			}
		}
	}
}

// No password of a URL is logged, wherever a client puts it.
func TestH21_AccessLogHasNoPasswords(t *testing.T) {
	for _, tt := range []struct {
		name, method, target, host, referer string
		want                                string // in the log
	}{
		{"absolute form", "GET", "http://user:secret@a.test/x", "a.test", "", "http://…@a.test/x"},
		{"absolute form, several signs", "GET", "http://us@er:secret@a.test/x", "a.test", "", "http://…@a.test/x"},
		{"absolute form, a query after it", "GET", "http://user:secret@a.test?q=http://b@c", "a.test", "", "http://…@a.test?q=http://…@c"},
		{"authority form", "CONNECT", "user:secret@a.test:443", "a.test:443", "", "…@a.test:443"},
		{"host", "GET", "/x", "user:secret@a.test", "", "/x"},
		{"referer", "GET", "/x", "a.test", "http://user:secret@a.test/y", "/x"},
		{"a URL in a query", "GET", "/x?to=http://user:secret@b.test/", "a.test", "http://a.test/?to=http://user:secret@b.test/", "/x?to=http://…@b.test/"},
		{"referer without a scheme", "GET", "/x", "a.test", "//user:secret@a.test/y", "/x"},
	} {
		for _, format := range []access.Format{access.JSON, access.Text, access.Combined} {
			r := request("/")
			r.Method, r.RequestURI, r.Host = tt.method, tt.target, tt.host
			if tt.referer != "" {
				r.Header.Set("Referer", tt.referer)
			}
			line := ask(t, access.Options{What: access.All, Format: format}, r, func(w http.ResponseWriter, r *http.Request) {
				w.(weirhttp.ReceiptWriter).SetReceipt(weirhttp.Receipt{Err: errors.New(`Get "http://user:secret@b.test": refused`)})
			})
			if strings.Contains(line, "secret") || tt.method == "GET" && strings.Contains(line, "us@er") {
				t.Errorf("%s in %s: %s; want no password", tt.name, format, line)
			}
			if format == access.JSON && !strings.Contains(line, tt.want) {
				t.Errorf("%s: %s; want %s", tt.name, line, tt.want)
			}
		}
	}
}
