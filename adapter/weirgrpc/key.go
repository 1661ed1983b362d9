package weirgrpc

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"

	"google.golang.org/protobuf/proto"
)

// A Key is the identity of a call, by which a Guard of this package knows it. Keys are
// compared with ==. Their message and identity are unexported, because they may be
// secret.
type Key struct {
	Method   string // the full name
	identity string // metadata, authority, peer and scope
	message  string // in deterministic encoding
}

// String returns the method and the beginning of a hash of the rest, which reveals
// nothing of it.
func (k Key) String() string {
	if k.identity == "" {
		return k.Method
	}
	return k.Method + " " + k.hash("")[:12]
}

// FullMethod returns Method, for consoles, which know no type of this package.
func (k Key) FullMethod() string { return k.Method }

// hash returns a hash of k under a prefix, in hexadecimal digits: 64 of SHA-256. No two
// keys have the same input, because each part is preceded by its length.
func (k Key) hash(prefix string) string {
	var b []byte
	for _, part := range []string{prefix, k.Method, k.identity, k.message} {
		b = appendString(b, part)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// size returns how many bytes k has.
func (k Key) size() int { return len(k.Method) + len(k.identity) + len(k.message) }

// appendString appends s to b, preceded by its length.
func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// deterministic encodes messages for keys. Equal messages can have different
// encodings, as of unknown fields and of an Any; then they share nothing. Different
// messages of one type never have the same.
var deterministic = proto.MarshalOptions{Deterministic: true, AllowPartial: true}

// fingerprint describes how p builds keys, for instances that have other rules.
func (p *policy) fingerprint() string {
	b := appendString(nil, p.Schema)
	for _, list := range [][]string{p.keys, p.ignored} {
		list = slices.Compact(slices.Sorted(slices.Values(list)))
		b = binary.AppendUvarint(b, uint64(len(list)))
		for _, k := range list {
			b = appendString(b, k)
		}
	}
	flags := byte(p.Peer) << 1
	if p.IgnoreAuthority {
		flags |= 1
	}
	if p.Scope != nil {
		flags |= 1 << 7
	}
	return string(append(b, flags))
}
