package route_test

import (
	"strings"
	"testing"

	"github.com/weir-go/weir/gateway/internal/route"
)

func TestFindReadings(t *testing.T) {
	set := rules(
		"- - -",                   // 0
		"- /limited -",            // 1: normalized
		"- /limited/public -",     // 2
		"- /api/v1 -",             // 3
		"- =/one -",               // 4: caseless
		"- /Caf%c3%a9 -",          // 5: caseless
		"- /a@b POST",             // 6: normalized
		"shop.example /limited -", // 7
		"*.example /dir/ -",       // 8: normalized
		"- /a%2Fb -",              // 9: normalized
	)
	for _, i := range []int{1, 6, 8, 9} {
		set[i].Match = route.Normalized
	}
	set[4].Match, set[5].Match = route.Caseless, route.Caseless
	for _, c := range []struct {
		path string
		want int
	}{
		{"/", 0}, {"/limited", 1}, {"/limited/", 1}, {"/limitedx", 0}, {"/limited/x", 1},
		{"/limited/public", 2}, {"/limited/public/", 2}, {"/limited/public/x", 2},
		// Each way to write it, for origins that undo it.
		{"//limited", 1}, {"/./limited", 1}, {"/x/../limited", 1}, {"/../limited", 1}, {"/%6cimited", 1}, {"/%6Cimited", 1},
		{"/x/%2e%2e/limited", 1}, {"/x/.%2E/limited", 1}, {"/limited;x=1", 1}, {"/limited;", 1}, {"/;x/limited", 1},
		{"/%2flimited", 1}, {"/x%2f..%2flimited", 1}, {"/x/..%2Flimited", 1}, {"/x/..;/limited", 1}, {"/x/..;a=b/limited", 1},
		{`/\limited`, 1}, {`/x/..\limited`, 1}, {"/x%5c..%5climited", 1}, {"/limited%2Fx", 1}, {`/limited\x`, 1},
		{"/limited#x", 1}, {"/x/y/../../limited", 1}, {"/x//../limited", 1}, {"/x/../limited//../y", 1}, {"//limited/../y", 1},
		{"/api/v1/../../limited/x", 1}, {"/limited/public/../x", 1}, {"/x/../limited/public", 1},
		{"/api/v1/%2e%2e/..;/limited", 1},
		// Delimiters, encoded or not, and what an origin drops at the end of a name.
		{"/limited%3Bx", 1}, {"/limited%3bx/y", 1}, {"/x/..%3b/limited", 1}, {"/limited%00", 1}, {"/limited%00.json", 1}, {"/limited%0a", 1},
		{"/limited%0D%0Ax", 1}, {"/limited%3Fx", 1}, {"/limited%23x", 1}, {"/limited.", 1}, {"/limited..", 1}, {"/limited%2e", 1}, {"/limited%20", 1},
		{"/limited./x", 1}, {"/limited.;x", 1}, {"/x/.. /limited", 1}, {"/limited/public.", 1},
		// Encoded twice.
		{"/%256cimited", 1}, {"/limited%253Bx", 1}, {"/x/%252e%252e/limited", 1}, {"/x%252f..%252flimited", 1}, {"/limited%2500", 1}, {"/x%00/../%256cimited", 1},
		{"/a%40b", 0}, // it is for POST
		// What is no way to write it.
		{"/LIMITED", 0}, {"/x/limited", 0}, {"/limited.json", 0}, {"/limited.x", 0}, {"/lim%00ited", 0}, {"/%25256cimited", 0}, {"/api/v1/limited", 3},
		{"/api/v1;x", 0}, {"/redirect/https://h/limited", 0},
		// What is for the path as sent stays, where it says more.
		{"/API/v1", 0}, {"/api/v1/./x", 3}, {"/api/v1//x", 3},
		// Caseless and exact.
		{"/one", 4}, {"/ONE", 4}, {"/One/", 4}, {"//oNe", 4}, {"/one/x", 0}, {"/x/../%6FNE", 4},
		{"/caf%c3%a9", 5}, {"/CAF%C3%89/x", 5}, {"/café", 5},
		{"/a%2Fb", 9}, {"/a/b", 0}, {"/a%2Fb/c", 9},
		{"/one////x", 0}, {"/one/x/../../../one", 4}, {"/a/b/c/d/../../../../limited", 1}, {"/a/b/c/d/../../../limited", 0},
		{"*", 0}, {"", 0},
	} {
		if got := route.New(set).Find("any.test", c.path, "GET"); got != c.want {
			t.Errorf("Find(%q) = %d; want %d", c.path, got, c.want)
		}
	}
	for _, c := range []struct {
		host, path, method string
		want               int
	}{
		{"any.test", "/a%40b", "POST", 6}, {"any.test", "/a@b", "POST", 6}, {"any.test", "//a@b", "POST", 6},
		{"shop.example", "/limited", "GET", 7}, {"SHOP.example:80", "//limited", "GET", 1},
		{"a.example", "/dir", "GET", 8}, {"A.example.", "//dir", "GET", 8}, {"example", "/dir", "GET", 0},
	} {
		if got := route.New(set).Find(c.host, c.path, c.method); got != c.want {
			t.Errorf("Find(%q, %q, %q) = %d; want %d", c.host, c.path, c.method, got, c.want)
		}
	}
}

// A path without anything to understand is looked up without allocating.
func TestFindReadingsAllocatesNothing(t *testing.T) {
	set := rules("- /limited -", "shop.example - -")
	set[0].Match = route.Normalized
	x := route.New(set)
	for _, path := range []string{"/limited/x", "/style.css"} {
		if n := testing.AllocsPerRun(100, func() { x.Find("other.test", path, "GET") }); n != 0 {
			t.Errorf("Find(%q) allocates %v times; want 0", path, n)
		}
	}
}

// No chain of rewrites that an origin may undo, in any order, takes a path out of
// a route that matches it normalized; and a path that an origin cannot take for
// another one stays where it is.
func FuzzReadings(f *testing.F) {
	f.Add("/limited", []byte{0, 1, 2, 3})
	f.Add("/limited/x.y", []byte{9, 8, 7, 6, 5, 4})
	f.Add("/limited/", []byte("zAq~"))
	set := rules("- - -", "- /limited -")
	set[1].Match = route.Normalized
	x := route.New(set)
	f.Fuzz(func(t *testing.T, tail string, edits []byte) {
		if len(tail) > 64 || len(edits) > 32 || strings.ContainsAny(tail, `%;#?\`) {
			return
		}
		path := []string{"", "limited"}
		for s := range strings.SplitSeq(tail, "/") {
			if s != "" && s != "." && s != ".." {
				path = append(path, s)
			}
		}
		for _, e := range edits {
			at := 1 + int(e>>4)%(len(path)-1)
			switch e % 8 {
			case 0: // a segment that is taken back
				path = append(path[:at:at], append([]string{"x", ".."}, path[at:]...)...)
			case 1:
				path = append(path[:at:at], append([]string{"."}, path[at:]...)...)
			case 2:
				path[at] += ";p"
			case 3:
				if s := path[at]; s != "" && s[0] != '%' && s[0] < 0x80 {
					path[at] = "%" + string("0123456789abcdef"[s[0]>>4]) + string("0123456789ABCDEF"[s[0]&15]) + s[1:]
				}
			case 5:
				if strings.Trim(path[at], "./") != "" && !strings.Contains(path[at], "%") {
					path[at] += "."
				}
			case 6:
				path[at] += "%3bp"
			case 7:
				if s := path[at]; s != "" && s[0] != '%' && s[0] < 0x80 {
					path[at] = "%25" + string("0123456789abcdef"[s[0]>>4]) + string("0123456789ABCDEF"[s[0]&15]) + s[1:]
				}
			case 4:
				path[at] = "/" + path[at] // an empty segment before it
			}
		}
		p := strings.Join(path, "/")
		if got := x.Find("h", p, "GET"); got != 1 {
			t.Errorf("Find(%q) = %d; want 1", p, got)
		}
	})
}
