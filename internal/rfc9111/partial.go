package rfc9111

import (
	"bytes"
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// MaxParts is the number of separate parts of one representation that are kept.
const MaxParts = 16

// A ContentRange is the range of a body that a 206 response contains, with both
// positions inclusive, and the length of the whole body.
type ContentRange struct{ First, Last, Total int64 }

// Len returns the number of bytes in the range.
func (c ContentRange) Len() int64 { return c.Last - c.First + 1 }

// String returns c in the form of the field: "bytes 0-4/10".
func (c ContentRange) String() string {
	return "bytes " + strconv.FormatInt(c.First, 10) + "-" + strconv.FormatInt(c.Last, 10) + "/" + strconv.FormatInt(c.Total, 10)
}

// ReadPart parses the fields of a 206 response with one part (RFC 9110 section
// 15.3.7.1), and reports whether the part can be stored: it has one valid
// Content-Range with a known total, its Content-Length, if any, is that of the
// range, and it has a strong validator. A multipart response is no part.
func ReadPart(h http.Header) (ContentRange, bool) {
	var c ContentRange
	lines := h["Content-Range"]
	if len(lines) != 1 || hasPrefixFold(first(h, "Content-Type"), "multipart/byteranges") {
		return c, false
	}
	unit, spec, ok := strings.Cut(trim(lines[0]), " ")
	if !ok || !strings.EqualFold(unit, "bytes") {
		return c, false
	}
	span, total, ok := strings.Cut(spec, "/")
	from, to, both := strings.Cut(span, "-")
	if !ok || !both {
		return c, false
	}
	var valid [3]bool
	c.First, valid[0] = offset(from)
	c.Last, valid[1] = offset(to)
	c.Total, valid[2] = offset(total)
	if valid != [3]bool{true, true, true} || c.First > c.Last || c.Last >= c.Total {
		return c, false
	}
	for _, line := range h["Content-Length"] {
		if n, ok := offset(trim(line)); !ok || n != c.Len() {
			return c, false
		}
	}
	return c, StrongValidator(h) != ""
}

// offset parses the digits of a position or a length. Unlike position, it rejects
// values that are larger than any body.
func offset(s string) (int64, bool) {
	if len(s) > 18 {
		return 0, false
	}
	return position(s)
}

// clockDoubt is how much later than Last-Modified the Date of a response must be for
// Last-Modified to be a strong validator: the clocks of the origin that set them may
// differ.
const clockDoubt = time.Minute

// StrongValidator returns the validator of a response by which parts of the same
// representation can be recognized, as it is sent in If-Range: its ETag if that is
// strong, or its Last-Modified if it has no ETag and the Date is enough later for
// that to be strong (RFC 9110 sections 8.8.2.2 and 8.8.3). It returns "" if there is
// none.
func StrongValidator(h http.Header) string {
	if tags := h["Etag"]; len(tags) > 0 {
		tag := trim(tags[0])
		if len(tags) == 1 && len(tag) >= 2 && tag[0] == '"' && tag[len(tag)-1] == '"' && !strings.Contains(tag[1:len(tag)-1], `"`) {
			return tag
		}
		return ""
	}
	if len(h["Date"]) != 1 {
		return ""
	}
	return strongDate(h, time.Time{})
}

// strongDate returns the Last-Modified of a response that was received at received, or
// "" if that is not a strong validator.
func strongDate(h http.Header, received time.Time) string {
	if len(h["Last-Modified"]) != 1 {
		return ""
	}
	modified, ok := fixDate(trim(h["Last-Modified"][0]))
	if !ok {
		return ""
	}
	date := received
	if lines := h["Date"]; len(lines) > 0 {
		if date, ok = httpDate(lines[0], modified); !ok || len(lines) > 1 {
			return ""
		}
	}
	if date.Sub(modified) < clockDoubt {
		return ""
	}
	return trim(h["Last-Modified"][0])
}

// RangeHolds reports whether the If-Range of a request with fields h lets Range apply to a
// complete response with fields stored that was received at received: it is its ETag, or
// its Last-Modified, to the letter, and a strong validator (RFC 9110 section 13.1.5). It
// reports true if there is none.
func RangeHolds(h, stored http.Header, received time.Time) bool {
	lines := h["If-Range"]
	if len(lines) == 0 {
		return true
	}
	with := trim(lines[0])
	if strings.HasPrefix(with, `"`) || strings.HasPrefix(with, "W/") {
		return len(lines) == 1 && len(stored["Etag"]) == 1 && with == StrongValidator(stored)
	}
	return len(lines) == 1 && with != "" && with == strongDate(stored, received)
}

// SamePart reports whether a 206 response with the fields update is a part of the
// representation that stored ones with the fields stored are parts of: they have the
// same strong validator, and no field contradicts that (RFC 9111 section 3.4). A 206
// repeats Vary and Content-Location, and may leave out Content-Type and
// Content-Language (RFC 9110 section 15.3.7). It may also leave out Content-Encoding,
// but then nothing proves which bytes these are, should the validator not be as strong
// as it looks.
func SamePart(stored, update http.Header) bool {
	v := StrongValidator(stored)
	if v == "" || v != StrongValidator(update) {
		return false
	}
	for _, name := range []string{"Content-Encoding", "Content-Location", "Vary"} {
		if !slices.Equal(stored[name], update[name]) {
			return false
		}
	}
	for _, name := range []string{"Content-Type", "Content-Language"} {
		if x := update[name]; len(x) > 0 && !slices.Equal(x, stored[name]) {
			return false
		}
	}
	return true
}

// Combine returns the fields of a representation that consists of stored parts with the
// fields stored and of another part with the fields update (RFC 9111 section 3.4),
// without those of a single part. Unlike Freshen, it keeps Set-Cookie: the response
// goes to a client, and must then not be stored.
func Combine(stored, update http.Header) http.Header {
	out := WithoutPart(Freshen(stored, update))
	for _, name := range []string{"Set-Cookie", "Set-Cookie2"} {
		if lines := update[name]; len(lines) > 0 {
			out[name] = lines
		}
	}
	return out
}

// WithoutPart returns a copy of the end-to-end fields in h without those that describe
// the content of one part, and not the representation.
func WithoutPart(h http.Header) http.Header {
	out := EndToEnd(h)
	for _, name := range []string{"Content-Range", "Content-Length", "Content-Digest", "Content-Md5"} {
		delete(out, name)
	}
	return out
}

// A Part is a piece of a body. Its bytes never change.
type Part struct {
	First int64
	Bytes []byte
}

func (p Part) end() int64 { return p.First + int64(len(p.Bytes)) } // exclusive

// Parts are pieces of one body, sorted, with a gap between any two.
type Parts []Part

// Size returns the number of bytes in all parts.
func (ps Parts) Size() int64 {
	n := int64(0)
	for _, p := range ps {
		n += int64(len(p.Bytes))
	}
	return n
}

// Covers returns the bytes from first to last, both inclusive, and whether one part
// has them all.
func (ps Parts) Covers(first, last int64) ([]byte, bool) {
	for _, p := range ps {
		if p.First <= first && last < p.end() {
			return p.Bytes[first-p.First : last-p.First+1], true
		}
	}
	return nil, false
}

// Missing returns the smallest range that contains all that is missing from first to
// last, and what is known before and after it. If nothing of the range is known, or
// nothing is missing, ok is false.
func (ps Parts) Missing(first, last int64) (from, to int64, before, after []byte, ok bool) {
	from, to = first, last
	for _, p := range ps {
		if p.First <= from && from < p.end() {
			from = min(p.end(), last+1)
			before = p.Bytes[first-p.First : from-p.First]
		}
	}
	for _, p := range ps {
		if p.First <= to && to < p.end() && p.First > from {
			after = p.Bytes[:last+1-p.First]
			to = p.First - 1
		}
	}
	return from, to, before, after, from <= to && (len(before) > 0 || len(after) > 0)
}

// Agrees reports whether p has the same bytes as ps where both have some.
func (ps Parts) Agrees(p Part) bool {
	for _, old := range ps {
		from, to := max(old.First, p.First), min(old.end(), p.end())
		if from < to && !bytes.Equal(old.Bytes[from-old.First:to-old.First], p.Bytes[from-p.First:to-p.First]) {
			return false
		}
	}
	return true
}

// Add returns ps with p, which is a part of the same representation, merged with the
// parts that it overlaps or touches. ps stays as it is. p has at most limit bytes. If
// there would be more than that, or more than MaxParts parts, what is farthest from p
// in its own part is left out, and then the smallest other parts.
func (ps Parts) Add(p Part, limit int64) Parts {
	var near, out Parts
	first, end := p.First, p.end()
	for _, old := range ps {
		if old.end() < p.First || old.First > p.end() {
			out = append(out, old)
			continue
		}
		near = append(near, old)
		first, end = min(first, old.First), max(end, old.end())
	}
	if over := end - first - limit; over > 0 {
		cut := min(over, p.First-first)
		first, end = first+cut, end-(over-cut)
	}
	if first < p.First || end > p.end() {
		joined := Part{first, make([]byte, end-first)}
		for _, old := range append(near, p) {
			if from, to := max(old.First, first), min(old.end(), end); from < to {
				copy(joined.Bytes[from-first:], old.Bytes[from-old.First:to-old.First])
			}
		}
		p = joined
	}
	for len(out) > 0 && (len(out) >= MaxParts || out.Size()+int64(len(p.Bytes)) > limit) {
		least := 0
		for i, o := range out {
			if len(o.Bytes) < len(out[least].Bytes) {
				least = i
			}
		}
		out = slices.Delete(out, least, least+1)
	}
	at, _ := slices.BinarySearchFunc(out, p.First, func(o Part, first int64) int { return cmp.Compare(o.First, first) })
	return slices.Insert(out, at, p)
}

// Requested returns the one range that the lines of a Range field ask for in a body of
// size bytes, with both positions inclusive. It reports false if there are several,
// or if the field is ignored or cannot be satisfied.
func Requested(lines []string, size int64) (from, to int64, ok bool) {
	value, _ := Ranges(lines, size)
	set, ok := strings.CutPrefix(value, "bytes=")
	if !ok || strings.Contains(set, ",") {
		return 0, 0, false
	}
	a, b, _ := strings.Cut(set, "-")
	from, _ = offset(a)
	to, _ = offset(b)
	return from, to, true
}

// RangeApplies reports whether a request with fields h that asks for a range can be
// answered with a part of a response with fields stored: it has no condition, or only
// an If-Range that names the strong validator of that response (RFC 9110 section
// 13.1.5).
func RangeApplies(h, stored http.Header) bool {
	for name, lines := range h {
		if len(name) > 3 && name[:3] == "If-" && len(lines) > 0 &&
			(name != "If-Range" || len(lines) != 1 || trim(lines[0]) != StrongValidator(stored) || trim(lines[0]) == "") {
			return false
		}
	}
	return true
}

// AskFor changes the request fields h so that they ask for the range from first to
// last, both inclusive, of the representation with fields stored, or for all of the
// current one if that is another (RFC 9110 section 13.1.5). size is that of the whole
// body.
func AskFor(h, stored http.Header, first, last, size int64) {
	value := "bytes=" + strconv.FormatInt(first, 10) + "-"
	if last < size-1 {
		value += strconv.FormatInt(last, 10)
	}
	h["Range"], h["If-Range"] = []string{value}, []string{StrongValidator(stored)}
}
