package weirhttp

import (
	"crypto/sha512"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"hash"
	"net/http"
	"slices"
	"strings"

	"github.com/weir-go/weir/internal/graphql"
	"github.com/weir-go/weir/internal/jcs"
	"github.com/weir-go/weir/internal/responses"
)

// A digest of a read is SHA-512 over everything in it that has to be equal. Its first
// half is part of the key, and of names in the fleet. The second half, the proof, is
// kept with each stored response and each flight, and is compared before they are used.
// So a response would reach the wrong client only if both halves were equal, even if
// the keys of all bodies collided.

// digestVersion changes whenever two bodies may have one digest that had two before.
const digestVersion = "weir read 2"

// digestHalf is the length of a half.
const digestHalf = sha512.Size / 2

// collide makes the keys of all bodies of a URL equal, for a test.
var collide = false

// Why a read is not looked up. None of the texts depends on what the client sent.
const (
	unsharedTooLong   = "body too large"
	unsharedMemory    = "no memory for the body"
	unsharedTrailers  = "request trailers"
	unsharedCondition = "condition of the read rule"
	unsharedChange    = "not a query"
	unsharedFields    = "request fields"
)

// A comparison is how a body is compared.
type comparison struct {
	asJSON bool   // by meaning, else by bytes
	why    string // the reason for bytes, where the rule says JSON
	text   []byte // what is compared
	found  [][]byte
}

// compare returns how body is compared.
func (r *readRule) compare(h http.Header, body []byte) comparison {
	if r.plan == nil {
		return comparison{text: body}
	}
	if len(h["Content-Encoding"]) > 0 {
		return comparison{text: body, why: "it has a Content-Encoding"}
	}
	if !isUTF8(h) {
		return comparison{text: body, why: "its Content-Type has parameters other than charset=utf-8"}
	}
	form, err := jcs.Canonical(body, r.plan)
	switch {
	case err != nil:
		_, why, _ := strings.Cut(err.Error(), "form: ")
		return comparison{text: body, why: why}
	case form.Lossy:
		return comparison{text: body, why: "a number in it has more digits than a double", found: form.Found}
	}
	return comparison{asJSON: true, text: form.Text, found: form.Found}
}

// isUTF8 reports whether Content-Type has no parameters, or only charset=utf-8.
func isUTF8(h http.Header) bool {
	lines := h["Content-Type"]
	if len(lines) == 0 {
		return true
	}
	_, params, some := strings.Cut(lines[0], ";")
	name, value, _ := strings.Cut(strings.Trim(params, " \t"), "=")
	return !some || strings.EqualFold(name, "charset") && strings.EqualFold(strings.Trim(value, `"`), "utf-8")
}

// unshared returns why a read with that body is not shared, or "". If it is not a read,
// that is unsharedChange.
func (r *readRule) unshared(c comparison, rawQuery string) string {
	if r.plan == nil {
		return ""
	}
	if r.GraphQL && !r.queries(c, rawQuery) {
		return unsharedChange
	}
	for i, only := range r.Only {
		if c.found == nil {
			return unsharedCondition
		}
		value := c.found[i]
		if value == nil && only.Absent || value != nil && slices.Contains(r.values[i], string(value)) {
			continue
		}
		return unsharedCondition
	}
	return ""
}

// queries reports whether a GraphQL request has queries alone. Servers also take a
// document from the URL.
func (r *readRule) queries(c comparison, rawQuery string) bool {
	at := len(r.Only)
	if i := slices.IndexFunc(r.Only, func(o ReadCondition) bool { return o.Field == "/"+graphQLField }); i >= 0 {
		at = i
	}
	if c.found == nil || c.found[at] == nil || documentInURL(rawQuery) {
		return false
	}
	var document string
	return json.Unmarshal(c.found[at], &document) == nil && graphql.OnlyQueries(document)
}

// documentInURL reports whether a GraphQL server may take the document from the URL: it
// has a parameter of that name, in any spelling that some server decodes to it.
func documentInURL(rawQuery string) bool {
	for param := range strings.FieldsFuncSeq(rawQuery, func(c rune) bool { return c == '&' || c == ';' }) {
		name, _, _ := strings.Cut(strings.TrimLeft(paramName(param), " "), "[")
		if strings.EqualFold(strings.TrimRight(name, " \x00"), graphQLField) {
			return true
		}
	}
	return false
}

// digest returns the halves of the digest of a read with these fields.
func (r *readRule) digest(req *http.Request, c comparison) (half, proof string) {
	sum, h := sha512.New(), req.Header
	write(sum, digestVersion, req.Method)
	if c.asJSON {
		write(sum, "json", strings.Join(r.Ignore, "\n")) // what one rule ignores, another may not
	} else {
		write(sum, "bytes", "")
	}
	for _, name := range aboutBody(h) {
		if name == "Content-Type" && c.asJSON {
			write(sum, name, "1", mediaType(h))
			continue
		}
		write(sum, name, countOf(h[name]))
		write(sum, h[name]...)
	}
	write(sum, "") // no name is empty
	_, _ = sum.Write(c.text)
	all := sum.Sum(make([]byte, 0, sha512.Size))
	half, proof = string(all[:digestHalf]), string(all[digestHalf:])
	if collide {
		half = strings.Repeat("x", digestHalf)
	}
	return half, proof
}

// aboutBody returns the fields of a read that are part of its digest: those about its
// body (RFC 10008 section 2.7). By the others, its response is selected (H2).
func aboutBody(h http.Header) []string {
	var names []string
	for name, lines := range h {
		if len(lines) == 0 || name == "Content-Length" {
			continue
		}
		if strings.HasPrefix(name, "Content-") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// write writes texts, each with its length before it.
func write(to hash.Hash, texts ...string) {
	var n [8]byte
	for _, text := range texts {
		binary.BigEndian.PutUint64(n[:], uint64(len(text)))
		_, _ = to.Write(n[:])
		_, _ = to.Write([]byte(text))
	}
}

func countOf(lines []string) string {
	return string(binary.AppendUvarint(nil, uint64(len(lines))))
}

// keyOf returns the key and the proof of r, a read with that body. If r is not shared,
// why is the reason.
func (h *Handler) keyOf(rule *readRule, r *http.Request, body []byte) (key responses.Key, proof, why string, c comparison) {
	c = rule.compare(r.Header, body)
	if why = rule.unshared(c, r.URL.RawQuery); why != "" {
		return key, "", why, c
	}
	key = h.key(r)
	key.Body, proof = rule.digest(r, c)
	return key, proof, "", c
}

// bodyText formats the digest in a key for people, in 16 digits.
func bodyText(half string) string { return hex.EncodeToString([]byte(half[:min(len(half), 8)])) }
