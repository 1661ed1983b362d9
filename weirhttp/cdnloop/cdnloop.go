// Package cdnloop reads and writes CDN-Loop (RFC 8586), the request field to which
// each gateway on the path adds its name, so that it recognizes a request that comes
// back.
package cdnloop

import (
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
)

// Field is the name as net/http spells it.
const Field = "Cdn-Loop"

const (
	prefix = "weir-"
	digits = 32 // hexadecimal, 128 bits
	// acceptance marks the member of a gateway that accepted a request as a job: the
	// call of the job belongs to the same pass.
	acceptance = "job"
)

// NewID returns a unique name, a pseudonym in the sense of RFC 8586.
func NewID() string {
	var b [digits / 2]byte
	rand.Read(b[:]) // never fails
	return prefix + hex.EncodeToString(b[:])
}

// Passes returns how often id is in the field.
//
// It counts id wherever it is, even in a parameter of another member. There is no
// legitimate reason to write it there. A client that opens a quoted string, which
// ends where the next gateway writes one, must not hide the members in between.
func Passes(h http.Header, id string) int {
	n := 0
	visit(h[Field], func(name string, _ bool) {
		if strings.EqualFold(name, id) {
			n++
		}
	})
	return n
}

// Calls is Passes without the member that Accept has added.
func Calls(h http.Header, id string) int {
	n := 0
	visit(h[Field], func(name string, accepted bool) {
		if strings.EqualFold(name, id) && !accepted {
			n++
		}
	})
	return n
}

// Hops returns how many weir gateways a request has passed, or claims to have passed.
//
// Requests that wait for each other's call must have the same number, or two
// gateways that forward to each other wait forever:
//
//	A: leads the call for a client, and asks B
//	B: leads the call for another client, and asks A
//	A: has B's request wait for its own call
//	B: has A's request wait for its own call
//
// The number grows with each gateway, so the third and the fourth line cannot both
// happen: each would need a smaller number than the other.
func Hops(h http.Header) int {
	n := 0
	visit(h[Field], func(string, bool) { n++ })
	return n
}

// Add returns the lines of the field in h with id as the last member, and without the
// member that Accept has added for the same gateway. Lines of others stay unchanged,
// except that id is appended to the last one if it is well-formed: some servers keep
// only one line of each field. The lines of h are not changed.
func Add(h http.Header, id string) []string {
	lines := h[Field]
	if i := len(lines) - 1; i >= 0 {
		if rest, ok := strings.CutSuffix(lines[i], id+";"+acceptance); ok {
			lines = slices.Clone(lines)
			if lines[i] = strings.TrimRight(rest, ", \t"); lines[i] == "" {
				lines = lines[:i]
			}
		}
	}
	return add(lines, id)
}

// Accept returns the lines of the field in h for a request that the gateway called id
// accepts now and forwards later: see Add.
func Accept(h http.Header, id string) []string { return add(h[Field], id+";"+acceptance) }

func add(lines []string, member string) []string {
	last := len(lines) - 1
	if last < 0 || strings.Trim(lines[last], " \t") == "" || !closed(lines[last]) {
		return append(slices.Clip(lines), member)
	}
	lines = slices.Clone(lines)
	lines[last] += ", " + member
	return lines
}

// closed reports whether all quoted strings in line end.
func closed(line string) bool {
	for i := 0; i < len(line); i++ {
		if line[i] == '"' {
			n := quoted(line[i:])
			if n == 0 {
				return false
			}
			i += n - 1
		}
	}
	return true
}

// visit calls f for each weir name in the field; accepted means that Accept has added
// it.
func visit(lines []string, f func(name string, accepted bool)) {
	for _, line := range lines {
		for i := 0; i < len(line); {
			if !isToken(line[i]) {
				i++
				continue
			}
			start := i
			for i < len(line) && isToken(line[i]) {
				i++
			}
			if name := line[start:i]; isID(name) {
				rest, accepted := strings.CutPrefix(line[i:], ";"+acceptance)
				f(name, accepted && (rest == "" || !isToken(rest[0])))
			}
		}
	}
}

// isID reports whether name has the form that NewID returns, in any case.
func isID(name string) bool {
	return len(name) == len(prefix)+digits && strings.EqualFold(name[:len(prefix)], prefix) &&
		strings.Trim(name[len(prefix):], "0123456789abcdefABCDEF") == ""
}

// isToken reports whether c can be in a token (RFC 9110, section 5.6.2).
func isToken(c byte) bool {
	return c > ' ' && c < 0x7f && strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) < 0
}

// quoted returns the length of the quoted string at the start of s, or 0 if it does
// not end.
func quoted(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return 0
}
