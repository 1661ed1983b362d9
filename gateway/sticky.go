package gateway

import (
	"crypto/rand"
	"sync"

	"github.com/weir-go/weir/gateway/internal/upstream"
)

// A Sticky sends a client with a session to the server that has begun it (H39), for servers that
// keep sessions in memory. A cookie names the server: by a code of its URL, so that it shows no
// address, and without Key no client can make it up. It is added to responses that set a cookie or
// have Cache-Control: no-store, and so to none that other clients get. It is HttpOnly, with
// SameSite=Lax, and Secure for clients that use https. It lasts as long as the browser.
//
// A server that is drained, penalized, unhealthy, or at its MaxInFlight gets no requests of its
// sessions either; another server gets them. A cookie that names no server is ignored. Requests
// reach the servers with the cookie.
type Sticky struct {
	// Cookie is the name of the cookie, which no server must use.
	Cookie string
	// Key makes the cookies of several gateways, or of one that restarts, the same: 16 bytes or
	// more. nil means a random key of this process, so that a restart moves sessions.
	Key []byte
}

func (s *Sticky) validate(f *faults, at string) {
	if s == nil {
		return
	}
	f.Check(isToken(s.Cookie) && len(s.Cookie) <= 256, at+".Cookie", quoted(s.Cookie), "the name of a cookie")
	f.Check(s.Key == nil || len(s.Key) >= 16, at+".Key", len(s.Key), "nil, or at least 16 bytes")
}

// processKey is the Key of each Sticky without one.
var processKey = sync.OnceValue(func() []byte {
	key := make([]byte, 32)
	rand.Read(key) // never fails
	return key
})

// options returns what of s is for the pool.
func (s *Sticky) options() *upstream.Sticky {
	if s == nil {
		return nil
	}
	o := &upstream.Sticky{Cookie: s.Cookie, Key: s.Key}
	if o.Key == nil {
		o.Key = processKey()
	}
	return o
}
