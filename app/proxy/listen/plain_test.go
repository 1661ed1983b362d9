package listen

import (
	"net/url"
	"reflect"
	"testing"
)

// What is not left to url.ParseRequestURI must be the same.
func FuzzParseTarget(f *testing.F) {
	for _, target := range []string{"/", "//", "//h/x", "/a?", "/a??", "/a?b=c?d", "/a:b@c;d,e=f+g$h&i~j", "/a%20b", "/a%zz", "/*", "/(a)", "/a!", "/a'b", "/a|b", "/[::1]", "/?%zz"} {
		f.Add(target)
	}
	f.Fuzz(func(t *testing.T, target string) {
		if target == "" || target[0] != '/' || !visible(target) {
			t.Skip()
		}
		want, err := url.ParseRequestURI(target)
		var got url.URL
		if ok := parseTarget(&got, target); ok != (err == nil) {
			t.Fatalf("%q: %v; want %v", target, ok, err)
		}
		if err == nil && !reflect.DeepEqual(&got, want) {
			t.Errorf("%q is %#v; want %#v", target, got, *want)
		}
	})
}
