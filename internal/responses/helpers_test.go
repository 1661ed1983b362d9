package responses_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/responses"
	"github.com/weir-go/weir/internal/rfc9111"
)

// key returns the key of a path on one host.
func key(path string) responses.Key {
	return responses.Key{Scheme: "http", Host: "example.org", Target: path}
}

// response returns a response with a body of n bytes, and tags.
func response(n int, tags ...string) *responses.Stored {
	return &responses.Stored{
		Response: rfc9111.Response{Status: 200, Storable: true, Lifetime: time.Minute, Tags: tags},
		Header:   http.Header{"Content-Type": {"text/plain"}, "Etag": {`"1"`}},
		Body:     make([]byte, n),
	}
}

// named returns a response with its name as the body.
func named(name string, tags ...string) *responses.Stored {
	r := response(0, tags...)
	r.Body = []byte(name)
	return r
}

// variant returns a named response that varies by Accept-Language.
func variant(name, selected string) *responses.Stored {
	r := named(name)
	r.Vary, r.Selected = []string{"Accept-Language"}, selected
	return r
}

// put fetches and stores r under k.
func put(t *testing.T, s *responses.Store, k responses.Key, r *responses.Stored) {
	t.Helper()
	if !s.Begin(k).Put(r) {
		t.Fatalf("Put(%v) = false; want true", k)
	}
}

// wantBody fails the test unless Get returns a response with that body, or none
// for "".
func wantBody(t *testing.T, s *responses.Store, k responses.Key, want string) {
	t.Helper()
	got := ""
	if r := s.Get(k, asks(nil)); r != nil {
		got = string(r.Body)
	}
	if got != want {
		t.Errorf("Get(%v) = %q; want %q", k, got, want)
	}
}

// wantVariants fails the test unless k has responses with these bodies, newest
// first.
func wantVariants(t *testing.T, s *responses.Store, k responses.Key, want ...string) {
	t.Helper()
	var got []string
	for _, r := range s.Variants(k) {
		got = append(got, string(r.Body))
	}
	if !slices.Equal(got, want) {
		t.Errorf("Variants(%v) = %q; want %q", k, got, want)
	}
}

// wantBound fails the test unless used and reserved bytes together are within the
// bound.
func wantBound(t *testing.T, s *responses.Store) {
	t.Helper()
	if st := s.Stats(); st.Used < 0 || st.Reserved < 0 || st.Used+st.Reserved > st.Bytes {
		t.Errorf("Used, Reserved = %d, %d; want a sum within %d", st.Used, st.Reserved, st.Bytes)
	}
}

func path(i int) string { return fmt.Sprintf("/%d", i) }

// asks returns a request with fields h.
func asks(h http.Header) *rfc9111.Request {
	q := rfc9111.ReadRequest(h)
	return &q
}
