package weirhttp

import (
	"net/http"
	"strings"
	"testing"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/internal/responses"
)

func TestFleetNamesAreTheirKeys(t *testing.T) {
	keys := []responses.Key{
		{Scheme: "http", Host: "shop.example", Target: "/"},
		{Scheme: "http", Host: "shop.example", Target: "/a?b=c:1"},
		{Scheme: "https", Host: "shop.example:8443", Target: "/"},
		{Scheme: "http", Host: "shop.exampl", Target: "e/"},
		{Scheme: "", Host: "", Target: ""},
		{Scheme: "http", Host: "a", Target: strings.Repeat("x", 4000)},
	}
	seen := map[string]bool{}
	for _, key := range keys {
		name, ok := nameOf(key)
		got, place, parsed := parseName(name)
		if !ok || !parsed || got != key || place != 0 || seen[name] {
			t.Errorf("parseName(nameOf(%v)) = %v, %d, %v; want the same key, and place 0", key, got, place, parsed)
		}
		seen[name] = true
		for _, v := range []string{
			variantOf(name, 1, []string{"Accept"}, http.Header{"Accept": {"a"}}),
			variantOf(name, 2, []string{"Accept"}, http.Header{"Accept": {"a"}}),
			variantOf(name, 1, []string{"Accept"}, http.Header{"Accept": {"b"}}),
			variantOf(name, 1, []string{"Accept", "Authorization"}, http.Header{"Accept": {"a"}}),
			variantOf(name, 1<<64-1, []string{"Authorization"}, http.Header{"Authorization": {"sesame"}}),
		} {
			got, place, parsed := parseName(v)
			if !parsed || got != key || place != placeOf(v) || place == 0 || seen[v] || strings.Contains(v, "sesame") || len(v) > fleet.MaxName {
				t.Errorf("parseName(%q) = %v, %d, %v; want %v and a place", v, got, place, parsed, key)
			}
			seen[v] = true
		}
	}
	if name, ok := nameOf(responses.Key{Target: strings.Repeat("x", fleet.MaxName)}); ok {
		t.Errorf("nameOf of a long URL = %d bytes; want no name", len(name))
	}
}

func FuzzFleetName(f *testing.F) {
	for _, s := range []string{"", "u", "v", "u4:http12:shop.example/", "u99999:", "u-1:", "v" + strings.Repeat("0", 48) + "u0:0:", "u4:http4:a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		key, place, ok := parseName(s)
		if !ok {
			return
		}
		name, fits := nameOf(key)
		if got, _, _ := parseName(name); fits && got != key {
			t.Errorf("parseName(%q) = %v, whose name is %q, which parses as %v", s, key, name, got)
		}
		if (place == 0) != (s[0] == 'u') {
			t.Errorf("parseName(%q) has place %d", s, place)
		}
	})
}
