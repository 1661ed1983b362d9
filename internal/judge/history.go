package judge

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"strings"
	"time"
)

// A Way is a part of the system that shares.
type Way string

// The ways. For jobs over HTTP, see SameJob.
const (
	Store   Way = "store"   // stored responses
	Flight  Way = "flight"  // calls in flight
	Read    Way = "read"    // declared reads with a body
	Stream  Way = "stream"  // shared event streams
	Private Way = "private" // the private Transport
	Fleet   Way = "fleet"   // two instances over one Tier
)

// Ways are all of them.
var Ways = []Way{Store, Flight, Read, Stream, Private, Fleet}

// A History is what is played. All its requests are for one host.
type History struct {
	Seed    uint64
	Way     Way
	Route   Route
	Origin  Origin
	Clients []Client
	Steps   []Step
}

// A Route is what the operator says. The zero Route adds nothing to the origin's words.
type Route struct {
	TTL, ErrorTTL                      time.Duration
	StaleWhileRevalidate, StaleIfError time.Duration
	Heuristic                          float64
	Force                              bool
	Vary, Ignore, Unkeyed              []string
	AnyClient                          bool // coalesce: any_client
	TLS                                bool // requests come over TLS, perhaps with a certificate
}

// An Origin is what the origin says. Its zero value says nothing about caching.
type Origin struct {
	CacheControl string
	Expires      time.Duration // after Date; 0 means no Expires
	LastModified bool
	ETag         bool     // a strong validator of everything that counts
	Vary         []string // of the calls in turn, again from the first after the last; a line break makes two fields
	Status       []int    // likewise; 0 means 200
	Cookie       bool     // Set-Cookie with each response
	Cookie304    bool     // Set-Cookie with 304
	Control304   string   // Cache-Control of a 304, instead of CacheControl
	NeedsKey     bool     // 401 to a request without Authorization and X-Api-Key
	Parts        bool     // 206 to a range of bytes
	Rows         bool     // 200 with Content-Range to a range of another unit
	Coding       string   // Content-Encoding of each response
	Allow        string   // Access-Control-Allow-Origin: "*", or "echo" for that of the request
}

// A Client sends requests. The private Transport and the gateway's own code see neither
// the address nor the certificate of a client in a private cache.
type Client struct {
	Address     string // without a port
	Certificate string // what its certificate consists of; empty means none
	Identity    string // what only the program knows
}

// A Step is one request, or several at once.
type Step struct {
	Wait     time.Duration // before it
	Purge    bool          // of the first request's URL, after Wait
	Requests []Request
}

// A Request is one request of a client.
type Request struct {
	Client   int // index in History.Clients
	Instance int // of a fleet
	Method   string
	Target   string
	Fields   []Field
	Body     string
}

// A Field is a header field with its lines.
type Field struct {
	Name  string
	Lines []string
}

const host = "shop.example"

// Header returns the fields of r.
func (r Request) Header() http.Header {
	h := http.Header{}
	for _, f := range r.Fields {
		for _, line := range f.Lines {
			h.Add(f.Name, line)
		}
	}
	return h
}

// HTTP returns r as a server gets it from c.
func (r Request) HTTP(ctx context.Context, c Client, overTLS bool) *http.Request {
	scheme := "http://"
	if overTLS {
		scheme = "https://"
	}
	h, err := http.NewRequestWithContext(ctx, r.Method, scheme+host+r.Target, strings.NewReader(r.Body))
	if err != nil {
		panic("judge: " + err.Error())
	}
	if r.Body == "" {
		h.Body, h.ContentLength = nil, 0
	}
	h.Header = r.Header()
	h.Host = host
	h.RequestURI = r.Target
	h.RemoteAddr = net.JoinHostPort(c.Address, "4711")
	if overTLS {
		h.TLS = &tls.ConnectionState{HandshakeComplete: true}
		if c.Certificate != "" {
			h.TLS.PeerCertificates = []*x509.Certificate{{Raw: []byte(c.Certificate)}}
		}
	}
	return h
}

// URL returns the scheme and the host of all requests of h.
func (h History) URL() (scheme, name string) {
	if h.Route.TLS {
		return "https", host
	}
	return "http", host
}

type contextKey string

const (
	callerKey   contextKey = "caller"
	identityKey contextKey = "identity"
)

// Identity returns what only the program knows of the client that sent r. Give it to the
// system under test.
func Identity(r *http.Request) string {
	identity, _ := r.Context().Value(identityKey).(string)
	return identity
}

// caller returns the number of the request that r is the call for, or -1.
func caller(r *http.Request) int {
	if n, ok := r.Context().Value(callerKey).(int); ok {
		return n
	}
	return -1
}
