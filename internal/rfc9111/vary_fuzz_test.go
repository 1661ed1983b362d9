package rfc9111_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/rfc9111"
)

// Either Vary lists each field name once, in canonical form, or the response is
// not shared. How the names are split over lines makes no difference.
func FuzzVary(f *testing.F) {
	for _, s := range []string{"", "*", "Accept", "accept-encoding,, ACCEPT", "a\nb", " \t,a ,", "a b", "a;b", "a, *", "*a", "cookie:x", "a\x00", "é", "a\r", "\va", "x,X"} {
		f.Add(s)
	}
	const tokens = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	f.Fuzz(func(t *testing.T, s string) {
		var want []string
		readable := true
		for _, name := range strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == '\n' }) {
			switch name = strings.Trim(name, " \t"); {
			case name == "":
			case name == "*" || strings.Trim(name, tokens) != "":
				readable = false
			default:
				want = append(want, http.CanonicalHeaderKey(name))
			}
		}
		slices.Sort(want)
		want = slices.Compact(want)
		for _, lines := range [][]string{strings.Split(s, "\n"), {strings.ReplaceAll(s, "\n", ",")}, strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == '\n' })} {
			h := http.Header{"Cache-Control": {"max-age=60"}, "Vary": lines}
			r := read(origin, noFields, 200, h)
			switch {
			case !readable && (r.Storable || r.Shared || r.Reason != rfc9111.ReasonVary):
				t.Errorf("Vary: %q: stored %v, shared %v, reason %q; want neither, because of its Vary", lines, r.Storable, r.Shared, r.Reason)
			case readable && (!r.Storable || !slices.Equal(named(r.Vary), want)):
				t.Errorf("Vary: %q = %q, stored %v; want %q", lines, r.Vary, r.Storable, want)
			}
		}
		if !readable {
			return
		}
		// Only a difference in a field that it names makes requests different.
		first, second := http.Header{"Other": {"1"}}, http.Header{"Other": {"2"}}
		if slices.Contains(want, "Other") {
			return
		}
		if !matches(want, selecting(want, first), second) {
			t.Errorf("Vary: %q keeps requests apart that differ in another field", s)
		}
		for _, name := range want {
			second := http.Header{name: {"1"}}
			if matches(want, selecting(want, first), second) {
				t.Errorf("Vary: %q does not keep requests apart that differ in %s", s, name)
			}
		}
	})
}
