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

	"github.com/weir-go/weir/weirhttp"
	"github.com/weir-go/weir/weirhttp/cdnloop"
)

// cookiePrefix begins the name of a cookie among the fields of a principal.
const cookiePrefix = "cookie:"

// anonymous is the principal of clients without credentials.
var anonymous = principal(nil, nil)

// principal identifies the client that sends h without revealing it: a hash over the fields and
// cookies that tell clients apart, or anonymous if there is none of them.
func principal(h http.Header, fields []string) string {
	d := newDigest("principal")
	for _, name := range fields {
		values := h[name]
		if cookie, ok := strings.CutPrefix(name, cookiePrefix); ok {
			values = cookies(h, cookie)
		}
		if len(values) > 0 {
			d.fields(name, values)
		}
	}
	return d.sum()
}

// cookies are the values that h has of one cookie.
func cookies(h http.Header, name string) []string {
	var values []string
	for _, c := range (&http.Request{Header: h}).CookiesNamed(name) {
		values = append(values, c.Value)
	}
	return values
}

// fingerprint is what two requests must have in common to be the same: all but
// what says who asks, along which way, and how the answer is wanted.
func (q Request) fingerprint() string {
	d := newDigest("request")
	d.add(q.Method, strconv.FormatBool(q.TLS), strings.ToLower(q.Host), q.Target)
	for _, name := range slices.Sorted(maps.Keys(q.Header)) {
		// A condition of an unsafe request is part of what it asks for.
		if name != "Idempotency-Key" && (weirhttp.ComparesField(name) || slices.Contains(conditions, name)) {
			d.fields(name, q.Header[name])
		}
	}
	d.add(string(q.Body))
	if n := cdnloop.Hops(q.Header); n > 0 {
		// Two gateways that forward to each other would have their jobs wait for
		// each other's.
		d.add("hops", strconv.Itoa(n))
	}
	return d.sum()
}

// without returns q without a field.
func (q Request) without(name string) Request {
	q.Header = q.Header.Clone()
	q.Header.Del(name)
	return q
}

// keyOf is the job key of q: empty if each such request is a job of its own. The
// queue is the route's, so that routes are apart.
//
// With own it has what nobody can guess in place of what the request is: its job is
// the client's alone, and its ID, which comes from the key, lets nobody else in.
func (q Request) keyOf(idempotency, principal string, own bool) string {
	switch {
	case idempotency != "":
		return "idempotency " + principal + " " + idempotency
	case isSafe(q.Method):
		// For who reads it, the path is there in clear, without the query.
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

// A digest hashes parts so that none runs into the next.
type digest struct{ h hash.Hash }

func newDigest(of string) digest {
	d := digest{sha256.New()}
	d.add("weir jobs 1", of)
	return d
}

func (d digest) add(parts ...string) {
	for _, p := range parts {
		d.h.Write([]byte(strconv.Itoa(len(p)) + ":" + p)) // a hash takes everything
	}
}

func (d digest) fields(name string, values []string) {
	d.add(name, strconv.Itoa(len(values)))
	d.add(values...)
}

func (d digest) sum() string { return hex.EncodeToString(d.h.Sum(nil)) }

// canonical returns names as net/http spells them, sorted, each once.
func canonical(names []string) []string {
	out := make([]string, 0, len(names))
	for _, name := range names {
		if !strings.HasPrefix(name, cookiePrefix) { // the names of cookies have cases
			name = textproto.CanonicalMIMEHeaderKey(name)
		}
		out = append(out, name)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
