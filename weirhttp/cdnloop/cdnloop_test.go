package cdnloop_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/weirhttp/cdnloop"
)

const id = "weir-00112233445566778899aabbccddeeff"

func field(lines ...string) http.Header { return http.Header{cdnloop.Field: lines} }

func TestPasses(t *testing.T) {
	for _, c := range []struct {
		lines []string
		want  int
	}{
		{nil, 0},
		{[]string{""}, 0},
		{[]string{id}, 1},
		{[]string{"foo.example:8080", "bar; a=b,\t" + id + " ;trace=\"x,y\" , " + id}, 2},
		{[]string{strings.ToUpper(id)}, 1},
		{[]string{id + "0", "x" + id, "weir", "a" + id + "=1"}, 0},
		{[]string{`foo; a="`, `b", ` + id}, 1},
		{[]string{`foo; a=", ` + id}, 1},                      // an unterminated quote hides nothing
		{[]string{`foo; a=", ` + id + `, bar; trace="t"`}, 1}, // nor does one that the next gateway terminates
		{[]string{`foo; a="\\", ` + id}, 1},
		{[]string{",,, ,"}, 0},
		{[]string{"\x00\xff, " + id + "(old form)"}, 1},
		{[]string{id + ";job"}, 1},
	} {
		if got := cdnloop.Passes(field(c.lines...), id); got != c.want {
			t.Errorf("Passes(%q) = %d; want %d", c.lines, got, c.want)
		}
	}
	if got := cdnloop.Calls(field(id+";job, "+id), id); got != 1 {
		t.Errorf("Calls = %d; want 1, because the job is not a call", got)
	}
}

func TestHopsCountsWeirsOnly(t *testing.T) {
	other := cdnloop.NewID()
	for _, c := range []struct {
		line string
		want int
	}{
		{"", 0}, {"foo.example, weir, weir-12", 0}, {"foo, " + id, 1}, {id + ", " + other + ";job", 2},
	} {
		if got := cdnloop.Hops(field(c.line)); got != c.want {
			t.Errorf("Hops(%q) = %d; want %d", c.line, got, c.want)
		}
	}
}

func TestAddKeepsWhatOthersWrote(t *testing.T) {
	for _, c := range []struct{ lines, want []string }{
		{nil, []string{id}},
		{[]string{""}, []string{"", id}},
		{[]string{"foo"}, []string{"foo, " + id}},
		{[]string{"foo", `bar; a="x"`}, []string{"foo", `bar; a="x", ` + id}},
		{[]string{`foo; a="`}, []string{`foo; a="`, id}},
		{[]string{"foo, " + id + ";job"}, []string{"foo, " + id}},
		{[]string{"foo", id + ";job"}, []string{"foo, " + id}},
	} {
		before := slices.Clone(c.lines)
		if got := cdnloop.Add(field(c.lines...), id); !slices.Equal(got, c.want) {
			t.Errorf("Add(%q) = %q; want %q", c.lines, got, c.want)
		}
		if !slices.Equal(c.lines, before) {
			t.Errorf("Add changed %q to %q", before, c.lines)
		}
	}
	if got := cdnloop.Accept(field("foo"), id); !slices.Equal(got, []string{"foo, " + id + ";job"}) {
		t.Errorf("Accept = %q", got)
	}
}

// Whatever others wrote, we find our own name after it, even after another server has
// joined the lines.
func FuzzAdd(f *testing.F) {
	f.Add("foo", `bar; a="`)
	f.Add(`"\`, ",")
	f.Add(id+";job", "")
	f.Fuzz(func(t *testing.T, a, b string) {
		h := field(a, b)
		before := cdnloop.Passes(h, id)
		h = field(cdnloop.Add(h, id)...)
		if got := cdnloop.Passes(h, id); got != before+1 && !strings.Contains(a+b, ";job") {
			t.Errorf("Passes after Add(%q, %q) = %d; want %d", a, b, got, before+1)
		}
		if got := cdnloop.Passes(field(strings.Join(h[cdnloop.Field], ", ")), id); got == 0 {
			t.Errorf("Passes of %q, joined, = 0; want our own name", h)
		}
	})
}
