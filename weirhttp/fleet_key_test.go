package weirhttp

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/internal/responses"
	"github.com/weir-go/weir/internal/rfc9111"
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
			variantOf(name, 1, []string{"Accept"}, asks(http.Header{"Accept": {"a"}})),
			variantOf(name, 2, []string{"Accept"}, asks(http.Header{"Accept": {"a"}})),
			variantOf(name, 1, []string{"Accept"}, asks(http.Header{"Accept": {"b"}})),
			variantOf(name, 1, []string{"Accept", "Authorization"}, asks(http.Header{"Accept": {"a"}})),
			variantOf(name, 1<<64-1, []string{"Authorization"}, asks(http.Header{"Authorization": {"sesame"}})),
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

// H29, and instances of version N-1: variants that mean the same have one name. It is
// the name that N-1 computes from a field in canonical form, and never one that N-1
// computes from a field with another meaning.
func TestH29_FleetNamesOfVariants(t *testing.T) {
	name, _ := nameOf(responses.Key{Scheme: "http", Host: "shop.example", Target: "/"})
	of := func(language string) string {
		return variantOf(name, 1, []string{"Accept-Language"}, asks(http.Header{"Accept-Language": {language}}))
	}
	before := func(combined string) string { // N-1 compares bytes, with normalized blanks
		b := append([]byte{15}, "Accept-Language\x00"...)
		sum := sha256.Sum256(append(b, strconv.Itoa(len(combined))+":"+combined...))
		return "v" + strings.Repeat("0", 15) + "1" + hex.EncodeToString(sum[:hashDigits/2]) + name
	}
	for _, same := range []string{"de, en;q=0.5", "en;q=0.50,DE", "de,en;q=0.5"} {
		if of(same) != of("de, en;q=0.5") {
			t.Errorf("the variants of %q and of %q have two names; want one", same, "de, en;q=0.5")
		}
	}
	if of("EN;q=0.50,de") != before("de, en;q=0.5") {
		t.Error("the name is not that of N-1 for the canonical form")
	}
	for _, other := range []string{"EN;q=0.50, de", "en;q=0.5, de", "de, en", "de", ""} {
		if of("EN;q=0.50,de") == before(other) {
			t.Errorf("the name is that of N-1 for %q", other)
		}
	}
	for _, malformed := range []string{"de_DE", "de;q=.5", "de;q=0.1, de"} { // bytes, as before
		if of(malformed) != before(malformed) {
			t.Errorf("the name for %q is not that of N-1", malformed)
		}
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

// asks returns a request with fields h.
func asks(h http.Header) *rfc9111.Request {
	q := rfc9111.ReadRequest(h)
	return &q
}
