package responses_test

import (
	"net/http"
	"testing"

	"github.com/weir-go/weir/internal/responses"
	"github.com/weir-go/weir/internal/rfc9111"
)

// language returns the fields of a request for that language.
func language(l string) http.Header { return http.Header{"Accept-Language": {l}} }

// inLanguage returns a named response to a request with the fields h.
func inLanguage(name string, h http.Header) *responses.Stored {
	r := named(name)
	r.Vary = []string{"Accept-Language"}
	r.Selected = rfc9111.Selecting(r.Vary, asks(h))
	return r
}

// Each request gets the variant stored for its fields, in any order and without
// an allocation.
func TestH10GetSelectsTheVariant(t *testing.T) {
	s := responses.New(responses.Options{Bytes: 1 << 20})
	k := key("/a")
	for _, l := range []string{"de", "fr", "en"} {
		put(t, s, k, inLanguage(l, language(l)))
	}
	put(t, s, k, inLanguage("none", nil))
	for _, tt := range []struct {
		h    http.Header
		want string
	}{
		{language("de"), "de"}, {language("fr"), "fr"}, {language("en"), "en"},
		{language("it"), ""}, {nil, "none"}, {http.Header{"Accept": {"*/*"}}, "none"},
	} {
		got := ""
		if r := s.Get(k, asks(tt.h)); r != nil {
			got = string(r.Body)
		}
		if got != tt.want {
			t.Errorf("Get(%v) = %q; want %q", tt.h, got, tt.want)
		}
	}
	h := language("de")
	if n := testing.AllocsPerRun(1000, func() { s.Get(k, asks(h)) }); n != 0 {
		t.Errorf("Get of the last of four variants allocates %v times; want 0", n)
	}
}

// If several match, because the origin changed its Vary, Get returns the one
// stored last (RFC 9111 section 4.1).
func TestGetPrefersTheNewest(t *testing.T) {
	s := responses.New(responses.Options{Bytes: 1 << 20})
	k, h := key("/a"), language("de")
	put(t, s, k, inLanguage("old", h))
	both := named("new")
	both.Vary = []string{"Accept", "Accept-Language"}
	both.Selected = rfc9111.Selecting(both.Vary, asks(h))
	put(t, s, k, both)
	if r := s.Get(k, asks(h)); r != both {
		t.Errorf("Get = %v; want the one stored last", r)
	}
	s.Remove(k, both)
	if r := s.Get(k, asks(h)); r == nil || string(r.Body) != "old" {
		t.Errorf("Get = %v after its removal; want the old one", r)
	}
}
