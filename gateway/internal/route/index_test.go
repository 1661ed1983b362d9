package route_test

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/gateway/internal/route"
	"github.com/weir-go/weir/internal/histories"
)

// rules reads rules written as "hosts path methods", with "-" for none and
// commas between several.
func rules(lines ...string) []route.Rule {
	list := func(s string) []string {
		if s == "-" {
			return nil
		}
		return strings.Split(s, ",")
	}
	var rr []route.Rule
	for _, l := range lines {
		f := strings.Fields(l)
		rr = append(rr, route.Rule{Hosts: list(f[0]), Path: strings.Trim(f[1], "-"), Methods: list(f[2])})
	}
	return rr
}

func TestFind(t *testing.T) {
	set := rules(
		"- - -",                              // 0
		"- /api -",                           // 1
		"- /api/v1 POST",                     // 2
		"- =/health -",                       // 3
		"shop.example /only -",               // 4
		"*.example - GET,HEAD",               // 5
		"*.b.example /api -",                 // 6
		"- /dir/ -",                          // 7
		"[2001:db8::1],192.0.2.7 /only -",    // 8
		"- /api POST",                        // 9
		"- /caf%c3%a9 -",                     // 10
		"Big.Example,other.test =/x%2Fy GET", // 11
		"- /api -",                           // 12: never, as 1 comes first
	)
	for _, c := range []struct {
		host, path, method string
		want               int
	}{
		{"any.test", "/", "GET", 0},
		{"", "/", "GET", 0},
		{"any.test", "/apix", "GET", 0},
		{"any.test", "/api", "GET", 1},
		{"any.test", "/api/", "GET", 1},
		{"any.test", "/api/x/y", "GET", 1},
		{"any.test", "/api/x", "POST", 9},
		{"any.test", "/api/v1/x", "POST", 2},
		{"any.test", "/api/v1/x", "PUT", 1},
		{"any.test", "/health", "GET", 3},
		{"any.test", "/health/", "GET", 0},
		{"any.test", "/dir", "GET", 0},
		{"any.test", "/dir/", "GET", 7},
		{"any.test", "/dir/x", "GET", 7},
		// hosts
		{"shop.example", "/only/x", "GET", 4},
		{"SHOP.Example:8080", "/only", "PUT", 4},
		{"shop.example.", "/only", "PUT", 4},
		{"shop.example.:80", "/only", "PUT", 4},
		{"shop.example", "/other", "GET", 5},
		{"shop.example", "/other", "PUT", 0},
		{"example", "/", "GET", 0},
		{".example", "/api", "GET", 1},
		{"a.b.example", "/api", "GET", 6},
		{"x.a.B.example:1", "/api", "GET", 6},
		{"b.example", "/api", "GET", 5},
		{"a.b.example", "/x", "GET", 5},
		{"notexample", "/x", "GET", 0},
		{"[2001:DB8::1]:443", "/only", "GET", 8},
		{"[2001:db8::1]", "/only", "GET", 8},
		{"192.0.2.7:80", "/only", "GET", 8},
		{"big.example", "/x%2fy", "GET", 11},
		{strings.Repeat("a", 300) + ".example", "/x", "GET", 0},
		// paths that look like others
		{"any.test", "//api", "GET", 0},
		{"any.test", "/api//x", "GET", 1},
		{"any.test", "/x/../api", "GET", 0},
		{"any.test", "/api/../x", "GET", 1},
		{"any.test", "/%61pi/x", "GET", 1},
		{"any.test", "/api%2Fx", "GET", 0},
		{"any.test", "/api%2fv1/x", "GET", 0},
		{"any.test", "/API", "GET", 0},
		{"any.test", "/caf%C3%A9/x", "GET", 10},
		{"other.test", "/x/y", "GET", 0},
		{"any.test", "*", "OPTIONS", 0},
	} {
		if got := route.New(set).Find(c.host, c.path, c.method); got != c.want {
			t.Errorf("Find(%q, %q, %q) = %d; want %d", c.host, c.path, c.method, got, c.want)
		}
	}
}

func TestFindNone(t *testing.T) {
	x := route.New(rules("a.test =/ -", "*.test /x GET"))
	for _, c := range [][3]string{{"a.test", "*", "OPTIONS"}, {"a.test", "/y", "GET"}, {"b.test", "/x", "PUT"}, {"", "/x", "GET"}, {"c", "/x", "GET"}} {
		if got := x.Find(c[0], c[1], c[2]); got != route.None {
			t.Errorf("Find(%q) = %d; want None", c, got)
		}
	}
	if got := route.New(nil).Find("a.test", "/", "GET"); got != route.None {
		t.Errorf("Find without rules = %d; want None", got)
	}
}

// The index finds what looking at every rule finds.
func TestFindLikeANaiveMatcher(t *testing.T) {
	hosts := []string{"a.test", "b.a.test", "c.b.a.test", "test", "*.test", "*.a.test", "*.b.a.test"}
	segments := []string{"a", "b", "", "a%2Fb", "%7e"}
	methods := []string{"GET", "PUT", "POST"}
	for seed := range histories.Seeds(t, 50, 400) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		some := func(from []string) []string {
			var s []string
			for range rnd.IntN(3) {
				s = append(s, from[rnd.IntN(len(from))])
			}
			return s
		}
		path := func() string {
			p := "/" + strings.Join(some(segments), "/")
			if rnd.IntN(4) == 0 {
				p += "/"
			}
			return p
		}
		var set []route.Rule
		for range 1 + rnd.IntN(12) {
			r := route.Rule{Hosts: some(hosts), Path: path(), Methods: some(methods)}
			if rnd.IntN(4) == 0 {
				r.Path = "=" + r.Path
			}
			set = append(set, r)
		}
		x := route.New(set)
		for range 200 {
			host, p, m := strings.TrimPrefix(hosts[rnd.IntN(len(hosts))], "*."), path(), methods[rnd.IntN(len(methods))]
			if rnd.IntN(3) == 0 {
				p += "/" + segments[rnd.IntN(len(segments))]
			}
			if got, want := x.Find(host, p, m), naive(set, host, p, m); got != want {
				t.Fatalf("seed %d: Find(%q, %q, %q) = %d; want %d of %v", seed, host, p, m, got, want, set)
			}
		}
	}
}

// naive looks at every rule, and compares what each says, part by part.
func naive(set []route.Rule, host, path, method string) int {
	best, most := route.None, []int(nil)
	for i, r := range set {
		hs := r.Hosts
		if len(hs) == 0 {
			hs = []string{""}
		}
		for _, h := range hs {
			says := []int{hostSays(h, host), 0, 0, 0, -i}
			says[1], says[2] = pathSays(r.Path, path)
			if slices.Contains(r.Methods, method) {
				says[3] = 1
			} else if len(r.Methods) > 0 {
				continue
			}
			if says[0] >= 0 && says[1] >= 0 && (most == nil || slices.Compare(says, most) > 0) {
				best, most = i, says
			}
		}
	}
	return best
}

func hostSays(pattern, host string) int {
	switch {
	case pattern == "":
		return 0
	case pattern == host:
		return 1000
	case strings.HasPrefix(pattern, "*") && strings.HasSuffix(host, pattern[1:]) && len(host) > len(pattern)-1:
		return len(pattern)
	}
	return -1
}

func pathSays(pattern, path string) (exact, length int) {
	path = strings.ReplaceAll(path, "%7e", "~")
	pattern = strings.ReplaceAll(pattern, "%7e", "~")
	if p, ok := strings.CutPrefix(pattern, "="); ok {
		if p == path {
			return 1, 0
		}
		return -1, 0
	}
	rest, ok := strings.CutPrefix(path, pattern)
	if ok && (rest == "" || rest[0] == '/' || strings.HasSuffix(pattern, "/")) {
		return 0, len(pattern)
	}
	return -1, 0
}

func TestFindAllocatesNothing(t *testing.T) {
	x := route.New(rules("shop.example,*.example /api/v1 GET", "- - -"))
	for _, host := range []string{"Shop.Example:8080", "deep.below.example", "[::1]:80"} {
		n := testing.AllocsPerRun(100, func() { x.Find(host, "/api/v1/things/7", "GET") })
		if n != 0 {
			t.Errorf("Find(%q) allocates %v times; want 0", host, n)
		}
	}
}

func TestPath(t *testing.T) {
	for _, c := range [][3]string{
		{"GET", "/a%2Fb?x=/y", "/a%2Fb"},
		{"GET", "/%61pi", "/%61pi"},
		{"GET", "/a%20b", "/a%20b"},
		{"GET", "/api%2Fx|", "/api%2Fx|"}, // net/url would write it as /api/x%7C
		{"GET", "http://h.test", "/"},
		{"GET", "http://h.test?q", "/"},
		{"GET", "http://h.test/a//b?q", "/a//b"},
		{"OPTIONS", "*", "*"},
		{"OPTIONS", "http://h.test", "*"},
		{"OPTIONS", "http://h.test?", "/"},
		{"GET", "//api", "//api"},
		{"GET", "/x/../y;z=%3D", "/x/../y;z=%3D"},
	} {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(c[0] + " " + c[1] + " HTTP/1.1\r\nHost: h.test\r\n\r\n")))
		if err != nil {
			t.Fatal(err)
		}
		if got := route.Path(r); got != c[2] {
			t.Errorf("Path(%s %s) = %q; want %q", c[0], c[1], got, c[2])
		}
	}
	for in, want := range map[string]string{"http://h.test": "/", "http://h.test/a%2fb?c": "/a%2fb"} {
		r, err := http.NewRequest("GET", in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := route.Path(r); got != want {
			t.Errorf("Path(%s), of no server = %q; want %q", in, got, want)
		}
	}
}

func TestValidHost(t *testing.T) {
	label := strings.Repeat("a", 63)
	for h, want := range map[string]bool{
		"shop.example": true, "*.example": true, "localhost": true, "192.0.2.1": true, "[2001:db8::1]": true,
		"a_b.Example": true, label + ".test": true, "xn--bcher-kva.example": true,
		"": false, "*": false, "*.": false, "*.*.example": false, "a.*.example": false, "shop.example:80": false,
		"shop.example.": false, ".example": false, "a..b": false, "2001:db8::1": false, "[192.0.2.1]": false,
		"[::1%25eth0]": false, "bücher.example": false, "a b": false, "http://a.test": false, "a/b": false,
		label + "a.test":                 false,
		strings.Repeat("abc.", 64) + "d": false,
	} {
		if got := route.ValidHost(h); got != want {
			t.Errorf("ValidHost(%q) = %v; want %v", h, got, want)
		}
	}
}

func TestValidPath(t *testing.T) {
	for p, want := range map[string]bool{
		"/": true, "=/": true, "/api": true, "/a%2Fb/": true, "/a;b=c,d@e:(x)": true, "//": true, "=/health": true,
		"": false, "=": false, "api": false, "==/x": false, "/a b": false, "/a?b": false, "/a#b": false, "/a%2": false,
		"/a%zz": false, "/é": false, "/{id}": false, "/a\\b": false,
	} {
		if got := route.ValidPath(p); got != want {
			t.Errorf("ValidPath(%q) = %v; want %v", p, got, want)
		}
	}
}

// Whatever comes, a rule for every request is found, a path that is under a
// prefix stays so with anything behind it, and how a host or an escape is
// spelled makes no difference.
func FuzzFind(f *testing.F) {
	f.Add("shop.example:80", "/api/x", "GET")
	f.Add("[::1]:80", "/%61pi%2f", "PUT")
	f.Add("..:", "//%zz/%", "")
	f.Add(strings.Repeat("a.", 200), "*", "OPTIONS")
	x := route.New(rules("- - -", "*.example /api -", "shop.example =/%61 GET"))
	below := route.New(rules("- /api -"))
	f.Fuzz(func(t *testing.T, host, path, method string) {
		i := x.Find(host, path, method)
		if i == route.None {
			t.Errorf("Find(%q, %q, %q) = None; want a rule", host, path, method)
		}
		if j := x.Find(upper(host), path, method); j != i {
			t.Errorf("Find(%q) = %d; want %d as for %q", upper(host), j, i, host)
		}
		if got := below.Find(host, "/api/"+path, method); got != 0 {
			t.Errorf("Find(%q) = %d; want 0", "/api/"+path, got)
		}
		var all strings.Builder
		for _, c := range []byte(path) {
			if c == '/' || c == '%' || c == '*' {
				all.WriteByte(c)
			} else if !strings.Contains(path, "%") && c|0x20 >= 'a' && c|0x20 <= 'z' {
				fmt.Fprintf(&all, "%%%02x", c)
			} else {
				all.WriteByte(c)
			}
		}
		if j := x.Find(host, all.String(), method); j != i {
			t.Errorf("Find(%q) = %d; want %d as for %q", all.String(), j, i, path)
		}
	})
}

// upper is strings.ToUpper for ASCII alone.
func upper(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'a' <= c && c <= 'z' {
			b[i] = c - 'a' + 'A'
		}
	}
	return string(b)
}
