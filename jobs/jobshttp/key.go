package jobshttp

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"maps"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/plain"
	"github.com/weir-go/weir/weirhttp"
	"github.com/weir-go/weir/weirhttp/cdnloop"
)

// cookiePrefix marks a cookie among the field names of a principal.
const cookiePrefix = "cookie:"

// anonymous is the principal of clients without credentials.
var anonymous = principal(nil, nil)

// principal identifies the client that sends h without revealing it. It is a hash of
// the fields and cookies that distinguish clients, or anonymous if there are none. An
// empty value distinguishes no client: all clients that send one would be the same.
func principal(h http.Header, fields []string) string {
	d := newDigest("principal")
	for _, name := range fields {
		values := h[name]
		if cookie, ok := strings.CutPrefix(name, cookiePrefix); ok {
			values = cookies(h, cookie)
		}
		if values = notEmpty(values); len(values) > 0 {
			d.fields(name, values)
		}
	}
	return d.sum()
}

// notEmpty returns the values with more in them than white space.
func notEmpty(values []string) []string {
	isEmpty := func(v string) bool { return strings.TrimSpace(v) == "" }
	if !slices.ContainsFunc(values, isEmpty) {
		return values
	}
	return slices.DeleteFunc(slices.Clone(values), isEmpty)
}

// cookies returns the values of one cookie in h.
func cookies(h http.Header, name string) []string {
	var values []string
	for _, c := range (&http.Request{Header: h}).CookiesNamed(name) {
		values = append(values, c.Value)
	}
	return values
}

// fingerprint hashes what two requests must have in common to be the same: everything
// except the client's identity, the route of the request, and the preferred form of
// the response.
func (q Request) fingerprint() string {
	d := newDigest("request")
	d.add(q.Method, strconv.FormatBool(q.TLS), strings.ToLower(q.Host), q.Target)
	for _, name := range slices.Sorted(maps.Keys(q.Header)) {
		lines := weirhttp.ComparedLines(name, q.Header[name])
		if slices.Contains(conditions, name) {
			lines = q.Header[name] // a condition of an unsafe request is part of the request
		}
		if name != "Idempotency-Key" && len(lines) > 0 {
			d.fields(name, lines)
		}
	}
	if q.read != "" {
		d.add("read", q.read) // bodies that mean the same
	} else {
		d.add(string(q.Body))
	}
	if n := cdnloop.Hops(q.Header); n > 0 {
		// Otherwise, if two gateways forward to each other, the job of each would
		// wait for the other's job.
		d.add("hops", strconv.Itoa(n))
	}
	return d.sum()
}

// without returns q without the given field.
func (q Request) without(name string) Request {
	q.Header = q.Header.Clone()
	q.Header.Del(name)
	return q
}

// keyOf returns the job key of q, or "" if each such request is a separate job.
// Routes have separate queues, so their keys do not collide.
//
// With own, a random text replaces the content of the request: the job is this
// client's alone. The job's ID is derived from the key, so no other client can guess
// it.
func (q Request) keyOf(idempotency, principal string, own bool) string {
	switch {
	case idempotency != "":
		return "idempotency " + principal + " " + idempotency
	case isSafe(q.Method), q.read != "":
		// The path is readable, for people who look at jobs; the query is not
		// included.
		path, _, _ := strings.Cut(q.Target, "?")
		if len(path) > 256 {
			path = path[:256]
		}
		d := newDigest("key")
		if own {
			d.add(rand.Text())
		} else {
			d.add(principal, q.fingerprint())
		}
		return q.Method + " " + strings.ToValidUTF8(path, "?") + " " + d.sum()
	}
	return ""
}

// label returns the method and the path of q, for lists of jobs. A query may be secret,
// so it is not included; nor is the authority of a target in absolute form, which may
// contain a password.
func (q Request) label() string {
	path, _, _ := strings.Cut(q.Target, "?")
	if scheme, rest, absolute := strings.Cut(path, "://"); absolute && !strings.Contains(scheme, "/") {
		_, path, _ = strings.Cut(rest, "/")
		path = "/" + path
	}
	text := plain.Line(q.Method + " " + path)
	if len(text) > jobs.MaxLabel {
		const more = "…"
		text = strings.ToValidUTF8(text[:jobs.MaxLabel-len(more)], "") + more
	}
	return text
}

// A digest hashes parts unambiguously: each is preceded by its length.
type digest struct{ h hash.Hash }

func newDigest(of string) digest {
	d := digest{sha256.New()}
	d.add("weir jobs 1", of)
	return d
}

func (d digest) add(parts ...string) {
	for _, p := range parts {
		d.h.Write([]byte(strconv.Itoa(len(p)) + ":" + p)) // a hash never fails
	}
}

func (d digest) fields(name string, values []string) {
	d.add(name, strconv.Itoa(len(values)))
	d.add(values...)
}

func (d digest) sum() string { return hex.EncodeToString(d.h.Sum(nil)) }

// canonical returns names in net/http's spelling, sorted and without duplicates.
func canonical(names []string) []string {
	out := make([]string, 0, len(names))
	for _, name := range names {
		if !strings.HasPrefix(name, cookiePrefix) { // names of cookies are case-sensitive
			name = textproto.CanonicalMIMEHeaderKey(name)
		}
		out = append(out, name)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
