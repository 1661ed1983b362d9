package weirhttp_test

import (
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/weir-go/weir/weirhttp"
)

// exchange sends r and returns the body of the response.
func exchange(t *testing.T, tr http.RoundTripper, r *http.Request) string {
	t.Helper()
	resp, err := tr.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The path of an opaque URL is in Opaque alone: Path is empty.
func TestH9_TransportOpaqueURLs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, tr := transport(t, weirhttp.Options{}, func(r *http.Request) (*http.Response, error) {
			return plain(r, 200, r.URL.RequestURI(), "Cache-Control", "max-age=60"), nil
		})
		for range 2 {
			for _, opaque := range []string{"//a.example/users%2falice", "//a.example/users%2fbob", "/c"} {
				r, _ := http.NewRequestWithContext(t.Context(), "GET", "http://a.example", nil)
				r.URL = &url.URL{Scheme: "http", Host: "a.example", Opaque: opaque}
				if got, want := exchange(t, tr, r), r.URL.RequestURI(); got != want {
					t.Errorf("got the response to %q; want that to %q", got, want)
				}
			}
		}
	})
}

// "http://a.example" and "http://a.example/" are one resource, so a POST to either
// invalidates both.
func TestH12_TransportURLWithoutPath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		posts := 0
		_, tr := transport(t, weirhttp.Options{}, func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPost {
				posts++
				return plain(r, 204, ""), nil
			}
			return plain(r, 200, strconv.Itoa(posts), "Cache-Control", "max-age=60"), nil
		})
		for i, at := range []string{"http://a.example", "http://a.example/", "http://a.example"} {
			for _, from := range []string{"http://a.example", "http://a.example/"} {
				r, _ := http.NewRequestWithContext(t.Context(), "GET", from, nil)
				if got := exchange(t, tr, r); got != strconv.Itoa(i) {
					t.Errorf("%s after %d POSTs: %s", from, i, got)
				}
			}
			r, _ := http.NewRequestWithContext(t.Context(), "POST", at, nil)
			exchange(t, tr, r)
		}
	})
}

// A transport sends field names as they are in the map, and the origin ignores their
// case. So must the cache, or it would not see the credentials of a request.
func TestH3_TransportFieldNamesInLowerCase(t *testing.T) {
	const fresh = "max-age=60"
	for _, tt := range []struct{ name, field, cacheControl, vary string }{
		{"credentials", "authorization", fresh, ""},
		{"cookies", "COOKIE", fresh, ""},
		{"a field in Vary", "x-tenant", fresh, "X-Tenant"},
		{"no freshness", "x-tenant", "", ""},
	} {
		for _, shared := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				c := private(t, shared, weirhttp.Options{}, func(r *http.Request) (*http.Response, error) {
					user := ""
					for name, values := range r.Header { // as an origin does
						if strings.EqualFold(name, tt.field) {
							user = values[0]
						}
					}
					return plain(r, 200, user, "Cache-Control", tt.cacheControl, "Vary", tt.vary), nil
				})
				for _, user := range []string{"alice", "bob"} {
					r, _ := http.NewRequestWithContext(t.Context(), "GET", "http://a.example/x", nil)
					r.Header[tt.field] = []string{user}
					if got := exchange(t, c.Transport, r); got != user {
						t.Errorf("%s, shared %t: %s got the response to %q", tt.name, shared, user, got)
					}
					if len(r.Header[tt.field]) != 1 || len(r.Header) != 1 {
						t.Errorf("%s: RoundTrip changed the header of its request: %v", tt.name, r.Header)
					}
				}
			})
		}
	}
}

func TestH8_TransportUpgradeInLowerCase(t *testing.T) {
	_, tr := transport(t, weirhttp.Options{}, func(r *http.Request) (*http.Response, error) {
		return plain(r, 200, "", "Cache-Control", "max-age=60"), nil
	})
	r, _ := http.NewRequestWithContext(t.Context(), "GET", "http://a.example/x", nil)
	r.Header["upgrade"] = []string{"echo"}
	if e := tr.Explain(r); e.Answer != "pass" {
		t.Errorf("Explain = %+v; want pass", e)
	}
	resp, err := tr.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got := tr.Stats().Streams; got != 1 {
		t.Errorf("Streams = %d; want 1", got)
	}
}
