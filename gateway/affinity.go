package gateway

import (
	"cmp"
	"net/textproto"
	"strings"

	"github.com/weir-go/weir/gateway/internal/upstream"
)

// Defaults and bounds of an Affinity.
const (
	defaultBound  = 1.25
	defaultPrefix = 1 << 10
	maxPrefix     = 64 << 10
	maxKeyParts   = 8
)

// An Affinity keeps requests with the same key at the same server of an Upstream, for servers
// that have caches (H39). A server gets the keys that it is first for, as long as
// it has room; other calls of theirs go to the next server in an order that each key has. A
// server that comes or goes moves only its share of the keys. It does not keep sessions: a key
// moves when its server has no room, is penalized or drained, or fails.
type Affinity struct {
	// By lists the parts of the key, 1 to 8: "path", "query:NAME", "header:NAME", "client" (its
	// address), and "body:/pointer", a JSON pointer (RFC 6901) into bodies that are read ahead
	// (weirhttp.ClientLimits.ReadAhead, or a declared read). A part that a request does not have
	// is left out. A request with none of them is sent to any server.
	By []string
	// Bound is how many times its share of the calls a server may have of its keys: at most
	// Bound × (calls in flight + 1) / servers, in relation to its weight, and at least 8 or half
	// of its MaxInFlight. 0 means 1.25, negative no bound; otherwise 1.01 to 100. Choices that
	// are made at the same instant do not see each other.
	Bound float64
	// Prefix is how many bytes count of a part from a body. 0 means 1 KiB, at most 64 KiB.
	Prefix int
}

func (a *Affinity) validate(f *faults, at string) {
	if a == nil {
		return
	}
	f.Check(len(a.By) > 0 && len(a.By) <= maxKeyParts, at+".By", len(a.By), "1 to 8 parts")
	seen := map[string]bool{}
	for i, by := range a.By {
		_, ok := keyPart(by)
		f.Check(ok, index(at+".By", i), quoted(by), `"path", "client", "query:NAME", "header:NAME", or "body:" and a JSON pointer such as /messages`)
		f.Check(!seen[by], index(at+".By", i), quoted(by), "no part that was named before")
		seen[by] = true
	}
	f.Check(a.Bound <= 0 || a.Bound >= 1.01 && a.Bound <= 100, at+".Bound", a.Bound, "1.01 to 100, 0 for 1.25, or negative for no bound")
	f.count(at+".Prefix", a.Prefix, 0, maxPrefix)
}

// keyPart reads an element of Affinity.By.
func keyPart(by string) (upstream.KeyPart, bool) {
	kind, name, named := strings.Cut(by, ":")
	switch {
	case by == "path":
		return upstream.KeyPart{From: upstream.KeyPath}, true
	case by == "client":
		return upstream.KeyPart{From: upstream.KeyClient}, true
	case named && kind == "query":
		return upstream.KeyPart{From: upstream.KeyQuery, Name: name}, name != "" && len(name) <= 256
	case named && kind == "header":
		return upstream.KeyPart{From: upstream.KeyHeader, Name: textproto.CanonicalMIMEHeaderKey(name)}, isToken(name)
	case named && kind == "body":
		names, ok := upstream.Pointer(name)
		return upstream.KeyPart{From: upstream.KeyBody, Pointer: names}, ok
	}
	return upstream.KeyPart{}, false
}

// options returns what of a, which is valid, is for the pool.
func (a *Affinity) options() *upstream.Affinity {
	if a == nil {
		return nil
	}
	o := &upstream.Affinity{Bound: max(cmp.Or(a.Bound, defaultBound), 0), Prefix: cmp.Or(a.Prefix, defaultPrefix)}
	for _, by := range a.By {
		part, _ := keyPart(by)
		o.By = append(o.By, part)
	}
	return o
}
