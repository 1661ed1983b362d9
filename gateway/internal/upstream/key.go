package upstream

import (
	"cmp"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/weir-go/weir/gateway/internal/upstream/choose"
)

// An Affinity keeps calls with the same key at the same server (H39).
type Affinity struct {
	By     []KeyPart // at least one
	Prefix int       // bytes of a part of a body that count
	Bound  float64   // see choose.Request
}

// A KeySource is where a part of a key comes from.
type KeySource uint8

// The sources of a key's parts.
const (
	KeyPath   KeySource = iota
	KeyQuery            // the first parameter with that name
	KeyHeader           // the values of a field
	KeyClient           // the address of the client
	KeyBody             // the value at a JSON pointer, of a body that was read ahead
)

// A KeyPart is a part of a key.
type KeyPart struct {
	From    KeySource
	Name    string   // of KeyQuery, and the canonical one of KeyHeader
	Pointer []string // the names in the JSON pointer of KeyBody
}

// key returns the key of r, 0 if r has none of its parts. It is the same in each process. r.Body
// must be as the Handler has left it.
func (a *Affinity) key(r *http.Request, client func(*http.Request) netip.Addr) uint64 {
	h, has := hash(offset), false
	for i := range a.By {
		p := &a.By[i]
		h = h.byte(byte(p.From))
		before := h
		switch p.From {
		case KeyPath:
			h = h.text(cmp.Or(r.URL.Opaque, r.URL.RawPath, r.URL.Path)) // as forwarded: see forward.Forwarder
		case KeyQuery:
			if v, ok := parameter(r.URL.RawQuery, p.Name); ok {
				h = h.text(v)
			}
		case KeyHeader:
			values := r.Header[p.Name]
			if p.Name == "Host" {
				h = h.text(strings.ToLower(r.Host))
			}
			for _, v := range values {
				h = h.text(v)
			}
		case KeyClient:
			if client != nil {
				if addr := client(r); addr.IsValid() {
					b := addr.As16()
					h = h.bytes(b[:])
				}
			}
		case KeyBody:
			if v := bodyPart(r, p.Pointer); len(v) > 0 {
				h = h.bytes(v[:min(len(v), a.Prefix)])
			}
		}
		has = has || h != before
	}
	if !has {
		return 0
	}
	return max(choose.Mix(uint64(h), 0), 1)
}

// parameter returns the value of the first parameter of a query with a name, as written.
func parameter(query, name string) (string, bool) {
	for query != "" {
		var one string
		one, query, _ = strings.Cut(query, "&")
		k, v, _ := strings.Cut(one, "=")
		if strings.ContainsAny(k, "%+") {
			if plain, err := url.QueryUnescape(k); err == nil {
				k = plain
			}
		}
		if k == name {
			return v, true
		}
	}
	return "", false
}

// readAhead is a body that was read ahead: all of it is in memory.
type readAhead interface {
	io.ReaderAt
	io.WriterTo
	io.Seeker
}

// bodyPart returns the JSON value at a pointer in the body of r, nil if there is none, or if the
// body was not read ahead. It is part of the body.
func bodyPart(r *http.Request, pointer []string) []byte {
	b, ok := r.Body.(readAhead)
	if !ok {
		return nil
	}
	var text whole
	at, err := b.Seek(0, io.SeekCurrent)
	if err != nil || at != 0 {
		return nil
	}
	_, err = b.WriteTo(&text)
	if _, back := b.Seek(0, io.SeekStart); err != nil || back != nil {
		return nil
	}
	return pointed(text, pointer)
}

// A whole is what was written to it in one piece, without a copy: a body may have 16 MiB.
type whole []byte

func (w *whole) Write(p []byte) (int, error) {
	*w = p
	return len(p), nil
}

// A hash is FNV-1a of 64 bits. It is not secret: a client that finds keys of one server gets
// no more of it than the bound allows.
type hash uint64

const offset = 14695981039346656037

func (h hash) byte(b byte) hash { return (h ^ hash(b)) * 1099511628211 }

// text adds a text and its end, so that the borders of texts count.
func (h hash) text(s string) hash {
	for i := range len(s) {
		h = h.byte(s[i])
	}
	return h.byte(0xff)
}

func (h hash) bytes(s []byte) hash {
	for _, b := range s {
		h = h.byte(b)
	}
	return h.byte(0xff)
}
