package forward

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net/http"

	"github.com/weir-go/weir/gateway/internal/fault"
)

// withoutTLS returns err, the error of a handshake, as a mismatch if the server
// did not reply with TLS.
func withoutTLS(err error) error {
	var record tls.RecordHeaderError
	if !errors.As(err, &record) || record.Conn == nil {
		return err
	}
	return &fault.MismatchError{
		Kind:    "tls_protocol_error",
		Details: "TLS was spoken to a port without TLS",
		Advice:  "write the server with http:// if it has no TLS",
	}
}

func wantsTLS() error {
	return &fault.MismatchError{
		Kind:    "http_protocol_error",
		Details: "HTTP without TLS was spoken to a port with TLS",
		Advice:  "write the server with https://",
	}
}

// mismatched returns err as a mismatch if the server does not speak HTTP/2. The
// error of net/http depends on which side notices first.
func (a *attempt) mismatched(err error) error {
	c := a.on.Load()
	if c == nil || !c.http1.Load() {
		return err
	}
	return &fault.MismatchError{
		Kind:    "http_protocol_error",
		Details: "HTTP/2 was spoken to a port of HTTP/1.1",
		Advice:  "write the server with http://",
	}
}

// tlsRecord reports whether b begins like a TLS record: an alert (21) or a
// handshake (22) of version 3.
func tlsRecord(b []byte) bool {
	return len(b) > 1 && (b[0] == 21 || b[0] == 22) && b[1] == 3
}

// plainRefusals are the HTTP texts that servers send to a client that does not
// use TLS: Go's, nginx, Apache httpd.
var plainRefusals = [][]byte{
	[]byte("Client sent an HTTP request to an HTTPS server."),
	[]byte("The plain HTTP request was sent to HTTPS port"),
	[]byte("speaking plain HTTP to an SSL-enabled server port"),
}

// maxRefusal is the longest body that is examined, in bytes.
const maxRefusal = 1 << 10

// refusesPlain reports whether resp means that TLS is missing. Such a response
// must not reach the client, which would read it as its own mistake. Only a
// short 400 that ends its connection is examined; its body can still be read.
func refusesPlain(resp *http.Response) bool {
	bare := resp.ProtoMinor == 0 && len(resp.Header) == 0 // Go's, which ends with the connection
	short := resp.ContentLength >= 0 && resp.ContentLength <= maxRefusal
	if resp.StatusCode != http.StatusBadRequest || !resp.Close || !bare && !short {
		return false
	}
	var head bytes.Buffer
	_, err := head.ReadFrom(io.LimitReader(resp.Body, maxRefusal))
	resp.Body = &refusal{Reader: io.MultiReader(bytes.NewReader(head.Bytes()), rest{resp.Body, err}), Closer: resp.Body}
	for _, text := range plainRefusals {
		if bytes.Contains(head.Bytes(), text) {
			return true
		}
	}
	return false
}

// A refusal is a body that was examined.
type refusal struct {
	io.Reader
	io.Closer
}

// A rest is the remainder of a body, or the error of reading it.
type rest struct {
	io.Reader
	err error
}

func (r rest) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	return r.Reader.Read(p)
}
