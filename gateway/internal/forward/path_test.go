package forward

import (
	"strings"
	"testing"
)

func TestH27_PathOf(t *testing.T) {
	for _, e := range []struct {
		path Path
		in   string
		want string // empty: refused
	}{
		{Path{}, "/x/../y", "/x/../y"},
		{Path{}, "*", "*"},
		{Path{Base: "/v1"}, "*", "*"},
		{Path{Base: "/v1"}, "/", "/v1/"},
		{Path{Base: "/v1"}, "/x%2Fy;a", "/v1/x%2Fy;a"},
		{Path{Base: "/v1"}, "//x", "/v1//x"},
		{Path{Base: "/v1"}, "/./x", "/v1/./x"},
		{Path{Base: "/v1"}, "/..", ""},
		{Path{Base: "/v1"}, "/x/../y", ""},
		{Path{Base: "/v1"}, "/%2e%2E/y", ""},
		{Path{Base: "/v1"}, "/.%2e", ""},
		{Path{Base: "/v1"}, "/x%2f..%2fy", ""},
		{Path{Base: "/v1"}, `/x\..\y`, ""},
		{Path{Base: "/v1"}, "/x%5c..%5Cy", ""},
		{Path{Base: "/v1"}, "/..;x/y", ""},
		{Path{Base: "/v1"}, "/..%3bx/y", ""},
		{Path{Base: "/v1"}, "/.../..x/x..", "/v1/.../..x/x.."},
		{Path{Base: "/v1"}, "/a;../b", "/v1/a;../b"},
		{Path{Base: "/v1"}, "/%zz/%2", "/v1/%zz/%2"},
		{Path{Strip: "/api"}, "/api", "/"},
		{Path{Strip: "/api"}, "/api/", "/"},
		{Path{Strip: "/api"}, "/api/x", "/x"},
		{Path{Strip: "/api"}, "/%61p%69/x", "/x"},
		{Path{Strip: "/%61pi"}, "/api/x", "/x"},
		{Path{Strip: "/a%2fb"}, "/a%2Fb/x", "/x"},
		{Path{Strip: "/a%2fb"}, "/a/b/x", ""},
		{Path{Strip: "/api"}, "/api//x", "/x"},
		{Path{Strip: "/api"}, "/api///x//y", "/x//y"},
		{Path{Strip: "/api"}, "/api//", "/"},
		{Path{Strip: "/api", Base: "/v1"}, "/api//x", "/v1//x"},
		{Path{Strip: "/api"}, "/apix", ""},
		{Path{Strip: "/api"}, "/api%2Fx", ""},
		{Path{Strip: "/api"}, "/ap", ""},
		{Path{Strip: "/api"}, "//api/x", ""},
		{Path{Strip: "/api"}, "/x/../api/x", ""},
		{Path{Strip: "/api"}, "/api/../x", ""},
		{Path{Strip: "/api"}, "/API/x", ""},
		{Path{Strip: "/api", Caseless: true}, "/aPI/X", "/X"},
		{Path{Strip: "/api", Base: "/v1"}, "/api", "/v1/"},
		{Path{Strip: "/api", Base: "/v1"}, "/api/x", "/v1/x"},
	} {
		got, ok := e.path.Of(e.in)
		if ok != (e.want != "") || got != e.want {
			t.Errorf("%+v.Of(%q) = %q, %v; want %q", e.path, e.in, got, ok, e.want)
		}
	}
}

func FuzzPath(f *testing.F) {
	for _, path := range []string{"/", "/api/x", "/api/%2e%2e/x", `/api\..;x`, "/%61pi//y"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		if !strings.HasPrefix(path, "/") {
			return
		}
		p := Path{Strip: "/api", Base: "/v1"}
		got, ok := p.Of(path)
		if !ok {
			return
		}
		rest, below := strings.CutPrefix(got, "/v1/")
		if !below || !strings.HasSuffix(path, "/"+rest) && rest != "" {
			t.Errorf("Of(%q) = %q; want /v1 and the end of the path as it was sent", path, got)
		}
		for segment := range strings.SplitSeq(rest, "/") {
			if unescape(segment) == ".." {
				t.Errorf("Of(%q) = %q, which leaves the base path", path, got)
			}
		}
	})
}
