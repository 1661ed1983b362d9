package jobshttp

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"maps"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-go/weir/internal/rfc9111"
)

// principal says who sends h without giving it away: a hash over the fields that
// tell clients apart. Those who send none of them are one principal.
func principal(h http.Header, fields []string) string {
	d := newDigest("principal")
	for _, name := range fields {
		d.fields(name, h[name])
	}
	return d.sum()
}

// fingerprint is what two requests must have in common to be the same: all but
// what says who asks, along which way, and how the answer is wanted.
func (q Request) fingerprint() string {
	d := newDigest("request")
	d.add(q.Method, strconv.FormatBool(q.TLS), strings.ToLower(q.Host), q.Target)
	for _, name := range slices.Sorted(maps.Keys(q.Header)) {
		// A condition of an unsafe request is part of what it asks for.
		if name != "Idempotency-Key" && (rfc9111.Counts(name) || slices.Contains(conditions, name)) {
			d.fields(name, q.Header[name])
		}
	}
	d.add(string(q.Body))
	return d.sum()
}

// keyOf is the job key of q: empty if each such request is a job of its own. The
// queue is the route's, so that routes are apart.
func (q Request) keyOf(idempotency, principal string) string {
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
		d.add(principal, q.fingerprint())
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
		out = append(out, textproto.CanonicalMIMEHeaderKey(name))
	}
	slices.Sort(out)
	return slices.Compact(out)
}
