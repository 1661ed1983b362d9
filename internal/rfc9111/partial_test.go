package rfc9111_test

import (
	"bytes"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/rfc9111"
)

func TestH29_WhichPartsCanBeStored(t *testing.T) {
	const tag = `"1"`
	tests := []struct {
		name string
		h    http.Header
		want rfc9111.ContentRange
		ok   bool
	}{
		{"a part", fields("Content-Range", "bytes 2-4/10", "Etag", tag), rfc9111.ContentRange{First: 2, Last: 4, Total: 10}, true},
		{"with its length", fields("Content-Range", "Bytes 0-0/1", "Content-Length", "1", "Etag", tag), rfc9111.ContentRange{Total: 1}, true},
		{"another length", fields("Content-Range", "bytes 2-4/10", "Content-Length", "4", "Etag", tag), rfc9111.ContentRange{}, false},
		{"no range", fields("Etag", tag), rfc9111.ContentRange{}, false},
		{"two ranges", fields("Content-Range", "bytes 2-4/10", "Content-Range", "bytes 2-4/10", "Etag", tag), rfc9111.ContentRange{}, false},
		{"multipart", fields("Content-Range", "bytes 2-4/10", "Content-Type", "multipart/byteranges; boundary=a", "Etag", tag), rfc9111.ContentRange{}, false},
		{"an unknown total", fields("Content-Range", "bytes 2-4/*", "Etag", tag), rfc9111.ContentRange{}, false},
		{"unsatisfied", fields("Content-Range", "bytes */10", "Etag", tag), rfc9111.ContentRange{}, false},
		{"backwards", fields("Content-Range", "bytes 4-2/10", "Etag", tag), rfc9111.ContentRange{}, false},
		{"beyond the end", fields("Content-Range", "bytes 2-10/10", "Etag", tag), rfc9111.ContentRange{}, false},
		{"another unit", fields("Content-Range", "lines 2-4/10", "Etag", tag), rfc9111.ContentRange{}, false},
		{"a sign", fields("Content-Range", "bytes +2-4/10", "Etag", tag), rfc9111.ContentRange{}, false},
		{"a huge number", fields("Content-Range", "bytes 2-4/9999999999999999999999", "Etag", tag), rfc9111.ContentRange{}, false},
		{"blanks", fields("Content-Range", "bytes 2 - 4/10", "Etag", tag), rfc9111.ContentRange{}, false},
		{"no validator", fields("Content-Range", "bytes 2-4/10"), rfc9111.ContentRange{}, false},
		{"a weak validator", fields("Content-Range", "bytes 2-4/10", "Etag", "W/"+tag), rfc9111.ContentRange{}, false},
	}
	for _, tt := range tests {
		got, ok := rfc9111.ReadPart(tt.h)
		if ok != tt.ok || ok && got != tt.want {
			t.Errorf("%s: ReadPart = %v, %v; want %v, %v", tt.name, got, ok, tt.want, tt.ok)
		}
	}
}

func TestH29_StrongValidators(t *testing.T) {
	long := httpTime(-time.Hour)
	tests := []struct {
		name string
		h    http.Header
		want string
	}{
		{"a strong tag", fields("Etag", `"a"`), `"a"`},
		{"an empty tag", fields("Etag", `""`), `""`},
		{"a weak tag", fields("Etag", `W/"a"`), ""},
		{"a weak tag and a date", fields("Etag", `W/"a"`, "Last-Modified", long, "Date", httpTime(0)), ""},
		{"two tags", fields("Etag", `"a"`, "Etag", `"b"`), ""},
		{"no quotes", fields("Etag", `a`), ""},
		{"a quote within", fields("Etag", `"a"b"`), ""},
		{"a date", fields("Last-Modified", long, "Date", httpTime(0)), long},
		{"a date, a minute before", fields("Last-Modified", httpTime(-time.Minute), "Date", httpTime(0)), httpTime(-time.Minute)},
		{"a date that is too recent", fields("Last-Modified", httpTime(-59*time.Second), "Date", httpTime(0)), ""},
		{"a date in the future", fields("Last-Modified", httpTime(time.Hour), "Date", httpTime(0)), ""},
		{"no Date", fields("Last-Modified", long), ""},
		{"not a date", fields("Last-Modified", "today", "Date", httpTime(0)), ""},
		{"nothing", noFields, ""},
	}
	for _, tt := range tests {
		if got := rfc9111.StrongValidator(tt.h); got != tt.want {
			t.Errorf("%s: StrongValidator = %q; want %q", tt.name, got, tt.want)
		}
	}
}

func TestH10_IfRange(t *testing.T) {
	const old, new = -time.Hour, -time.Minute + time.Second
	tests := []struct {
		name   string
		with   []string // If-Range
		stored http.Header
		want   bool
	}{
		{"none", nil, noFields, true},
		{"a tag", []string{`"a"`}, fields("Etag", `"a"`), true},
		{"another tag", []string{`"a"`}, fields("Etag", `"b"`), false},
		{"a tag, and none is stored", []string{`"a"`}, noFields, false},
		{"two tags", []string{`"a", "b"`}, fields("Etag", `"a"`), false},
		{"a weak tag", []string{`W/"a"`}, fields("Etag", `W/"a"`), false},
		{"a strong date", []string{httpTime(old)}, fields("Last-Modified", httpTime(old), "Date", httpTime(0)), true},
		{"beside a tag", []string{httpTime(old)}, fields("Etag", `"a"`, "Last-Modified", httpTime(old), "Date", httpTime(0)), true},
		{"without Date", []string{httpTime(old)}, fields("Last-Modified", httpTime(old)), true},
		{"weak", []string{httpTime(new)}, fields("Last-Modified", httpTime(new), "Date", httpTime(0)), false},
		{"weak, without Date", []string{httpTime(new)}, fields("Last-Modified", httpTime(new)), false},
		{"weak, beside a tag", []string{httpTime(new)}, fields("Etag", `"a"`, "Last-Modified", httpTime(new), "Date", httpTime(0)), false},
		{"a Date that is none", []string{httpTime(old)}, fields("Last-Modified", httpTime(old), "Date", "today"), false},
		{"a later date", []string{httpTime(0)}, fields("Last-Modified", httpTime(old), "Date", httpTime(0)), false},
		{"an earlier date", []string{httpTime(2 * old)}, fields("Last-Modified", httpTime(old), "Date", httpTime(0)), false},
		{"no Last-Modified", []string{httpTime(old)}, fields("Date", httpTime(0)), false},
		{"two lines", []string{httpTime(old), httpTime(old)}, fields("Last-Modified", httpTime(old), "Date", httpTime(0)), false},
		{"an empty one", []string{""}, noFields, false},
	}
	for _, tt := range tests {
		if got := rfc9111.RangeHolds(http.Header{"If-Range": tt.with}, tt.stored, t0); got != tt.want {
			t.Errorf("%s: RangeHolds(%q, %v) = %v; want %v", tt.name, tt.with, tt.stored, got, tt.want)
		}
	}
}

func TestH29_PartsOfTheSameRepresentation(t *testing.T) {
	a := fields("Etag", `"a"`, "Content-Type", "text/plain")
	dated := fields("Last-Modified", httpTime(-time.Hour), "Date", httpTime(0))
	tests := []struct {
		name string
		a, b http.Header
		want bool
	}{
		{"the same tag", a, fields("Etag", `"a"`), true},
		{"another tag", a, fields("Etag", `"b"`), false},
		{"a weak tag", a, fields("Etag", `W/"a"`), false},
		{"weak tags", fields("Etag", `W/"a"`), fields("Etag", `W/"a"`), false},
		{"no tag", a, noFields, false},
		{"no validators", noFields, noFields, false},
		{"another encoding", fields("Etag", `"a"`, "Content-Encoding", "br"), fields("Etag", `"a"`, "Content-Encoding", "gzip"), false},
		{"an encoding", a, fields("Etag", `"a"`, "Content-Encoding", "gzip"), false},
		{"an encoding that is not repeated", fields("Etag", `"a"`, "Content-Encoding", "gzip"), fields("Etag", `"a"`), false},
		{"another Vary", fields("Etag", `"a"`, "Vary", "Accept"), fields("Etag", `"a"`), false},
		{"another location", a, fields("Etag", `"a"`, "Content-Location", "/en"), false},
		{"another language", fields("Etag", `"a"`, "Content-Language", "de"), fields("Etag", `"a"`, "Content-Language", "en"), false},
		{"a language that is not repeated", fields("Etag", `"a"`, "Content-Language", "de"), fields("Etag", `"a"`), true},
		{"another type", a, fields("Etag", `"a"`, "Content-Type", "text/html"), false},
		{"the same date", dated, fields("Last-Modified", httpTime(-time.Hour), "Date", httpTime(time.Second)), true},
		{"another date", dated, fields("Last-Modified", httpTime(-2*time.Hour), "Date", httpTime(0)), false},
		{"the same date, once with a tag", dated, fields("Last-Modified", httpTime(-time.Hour), "Date", httpTime(0), "Etag", `"a"`), false},
	}
	for _, tt := range tests {
		if got := rfc9111.SamePart(tt.a, tt.b); got != tt.want {
			t.Errorf("%s: SamePart = %v; want %v", tt.name, got, tt.want)
		}
	}
}

// Any parts of one body, added in any order, have exactly its bytes.
func TestH29_PartsAreCombined(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		body := make([]byte, 1+random.IntN(40))
		for i := range body {
			body[i] = byte('a' + random.IntN(26))
		}
		known := make([]bool, len(body))
		var ps rfc9111.Parts
		for range random.IntN(8) {
			first := random.IntN(len(body))
			last := first + random.IntN(len(body)-first)
			p := rfc9111.Part{First: int64(first), Bytes: bytes.Clone(body[first : last+1])}
			if !ps.Agrees(p) {
				t.Fatalf("%v does not agree with %v", ps, p)
			}
			before := ps.Size()
			had := append(rfc9111.Parts(nil), ps...)
			ps = had.Add(p, 1<<20)
			if had.Size() != before {
				t.Fatalf("Add has changed the parts that it was called on")
			}
			for i := first; i <= last; i++ {
				known[i] = true
			}
		}
		check(t, body, known, ps)
	}
}

// check compares ps with what is known of body.
func check(t *testing.T, body []byte, known []bool, ps rfc9111.Parts) {
	t.Helper()
	for i := 1; i < len(ps); i++ {
		if ps[i].First <= ps[i-1].First+int64(len(ps[i-1].Bytes)) {
			t.Fatalf("parts %v touch or are not sorted", ps)
		}
	}
	for first := range body {
		all := true
		for last := first; last < len(body); last++ {
			all = all && known[last]
			got, ok := ps.Covers(int64(first), int64(last))
			if ok != all || ok && !bytes.Equal(got, body[first:last+1]) {
				t.Fatalf("Covers(%d, %d) of %v = %q, %v; want %q, %v", first, last, ps, got, ok, body[first:last+1], all)
			}
			from, to, before, after, some := ps.Missing(int64(first), int64(last))
			if !some {
				if !all && (known[first] || known[last]) {
					t.Fatalf("Missing(%d, %d) of %v = false; want the gap", first, last, ps)
				}
				continue
			}
			whole := string(before) + string(body[from:to+1]) + string(after)
			if all || whole != string(body[first:last+1]) || known[from] || known[to] {
				t.Fatalf("Missing(%d, %d) of %v = %d to %d, with %q and %q around; want the smallest gap in %q", first, last, ps, from, to, before, after, body[first:last+1])
			}
		}
	}
}

func TestH29_PartsAreBounded(t *testing.T) {
	var ps rfc9111.Parts
	for i := range int64(100) {
		ps = ps.Add(rfc9111.Part{First: i * 10, Bytes: make([]byte, 2+i%3)}, 1<<20)
	}
	if len(ps) != rfc9111.MaxParts {
		t.Errorf("%d parts are kept; want %d", len(ps), rfc9111.MaxParts)
	}
	ps = ps.Add(rfc9111.Part{First: 5000, Bytes: make([]byte, 30)}, 40)
	if _, ok := ps.Covers(5000, 5029); !ok || ps.Size() > 40 {
		t.Errorf("with a limit of 40 bytes, %d are kept, and the new part: %v; want at most 40, and it", ps.Size(), ok)
	}
	// Neighbors are cut at the far end, so that they keep within the limit as well.
	for _, tt := range []struct{ at, n, from, to int64 }{{100, 40, 100, 139}, {130, 25, 115, 154}, {155, 1, 116, 155}, {114, 2, 114, 153}, {0, 40, 0, 39}} {
		ps = ps.Add(rfc9111.Part{First: tt.at, Bytes: make([]byte, tt.n)}, 40)
		if _, ok := ps.Covers(tt.from, tt.to); !ok || ps.Size() > 40 {
			t.Errorf("after %d bytes at %d with a limit of 40, %v are kept; want %d to %d", tt.n, tt.at, ps, tt.from, tt.to)
		}
	}
	ps = rfc9111.Parts{{First: 5000, Bytes: make([]byte, 30)}}
	other := rfc9111.Part{First: 5029, Bytes: []byte("x")}
	if ps.Agrees(other) || !ps.Agrees(rfc9111.Part{First: 5030, Bytes: []byte("x")}) {
		t.Error("Agrees does not compare exactly the bytes that both have")
	}
}

func FuzzContentRange(f *testing.F) {
	for _, s := range []string{"bytes 0-4/10", "bytes */10", "bytes 0-0/1", "bytes 1-0/2", "bytes 0-18446744073709551616/1", "bytes  0-1/2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, ok := rfc9111.ReadPart(http.Header{"Content-Range": {s}, "Etag": {`"1"`}})
		if !ok {
			return
		}
		if c.First < 0 || c.Last < c.First || c.Total <= c.Last {
			t.Errorf("ReadPart(%q) = %v; want a range within its total", s, c)
		}
		again, ok := rfc9111.ReadPart(http.Header{"Content-Range": {c.String()}, "Etag": {`"1"`}})
		if !ok || again != c {
			t.Errorf("ReadPart(%q) = %v, written as %q, and read as %v, %v", s, c, c, again, ok)
		}
	})
}
