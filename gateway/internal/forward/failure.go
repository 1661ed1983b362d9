package forward

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"

	"github.com/weir-go/weir/gateway/internal/fault"
	"github.com/weir-go/weir/weirhttp"
)

// A ProtocolError is a response that HTTP does not allow.
type ProtocolError struct{ Reason string }

func (e *ProtocolError) Error() string { return "forward: " + e.Reason }

// fail responds to the client when there is no response from the server.
func (x *relay) fail(err error) {
	if x.up != nil {
		if broken := x.up.failure(); broken != nil {
			x.blame(broken)
			return
		}
		if errors.Is(context.Cause(x), errStalled) {
			x.refuse(http.StatusRequestTimeout, "the request body did not arrive", errStalled)
			return
		}
	}
	cause := context.Cause(x.r.Context())
	if cause != nil {
		err = cause
	}
	if x.sink != nil {
		if cause == nil {
			err = known(err)
		} else if x.sent {
			err = &weirhttp.ForwardError{Err: err, Sent: true, Ended: x.working}
		}
		x.sink.Fail(err)
		return
	}
	code, kind := Failure(err)
	text := http.StatusText(code) + "\n"
	h := x.w.Header()
	h.Set("Proxy-Status", x.f.name()+"; error="+kind)
	h.Set("Content-Length", strconv.Itoa(len(text)))
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	x.w.WriteHeader(code)
	io.WriteString(x.w, text)
}

// known returns err with the details that the cache needs.
func known(err error) error {
	_, kind := Failure(err)
	var given fault.StatusError
	if e := (*fault.StatusError)(nil); errors.As(err, &e) {
		given = *e
	}
	return &weirhttp.ForwardError{
		Status: given.Status,
		Err:    err, ProxyStatus: kind,
		Unreachable: errors.As(err, new(*fault.UnreachableError)) || errors.As(err, new(*fault.DownError)),
		Unavailable: errors.As(err, new(*fault.UnresolvedError)),
		NotRun:      errors.As(err, new(*fault.NotRunError)),
	}
}

// blame responds to a client whose body could not be read.
func (x *relay) blame(err error) {
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		x.refuse(http.StatusRequestEntityTooLarge, "the request body is too large", err)
	case isTimeout(err):
		x.refuse(http.StatusRequestTimeout, "the request body did not arrive in time", err)
	default:
		x.refuse(http.StatusBadRequest, "the request body is broken", err)
	}
}

// refuse responds to a client whose request is at fault, because of err. A Handler in front
// responds itself, like to all that it refuses.
func (x *relay) refuse(code int, text string, err error) {
	if x.sink == nil {
		refuse(x.w, x.r, code, text)
		return
	}
	if code == http.StatusRequestTimeout {
		err = fmt.Errorf("%w: %w", weirhttp.ErrSlowClient, err)
	}
	x.sink.Fail(&weirhttp.ForwardError{Err: err, Request: true})
}

// Failure returns the status for a request that ended with err and no response,
// and its error type (RFC 9209, section 2.3).
func Failure(err error) (code int, kind string) {
	var other interface{ ProxyStatus() string }
	if errors.As(err, &other) {
		return http.StatusBadGateway, other.ProxyStatus()
	}
	var unreachable *fault.UnreachableError
	var given *fault.StatusError
	switch timeout := isTimeout(err); {
	case errors.As(err, &given):
		return given.Status, "destination_unavailable"
	case errors.As(err, new(*fault.DownError)):
		return http.StatusBadGateway, "destination_unavailable"
	case errors.As(err, new(*fault.UnresolvedError)):
		return http.StatusServiceUnavailable, "dns_error"
	case errors.As(err, &unreachable):
		switch {
		case timeout && errors.As(err, new(*net.DNSError)):
			return http.StatusGatewayTimeout, "dns_timeout"
		case timeout:
			return http.StatusGatewayTimeout, "connection_timeout"
		}
		return http.StatusBadGateway, connectError(err)
	case timeout:
		return http.StatusGatewayTimeout, "http_response_timeout"
	}
	var protocol *ProtocolError
	switch text := err.Error(); {
	case errors.As(err, &protocol), strings.Contains(text, "malformed"):
		return http.StatusBadGateway, "http_protocol_error"
	case strings.Contains(text, "response headers exceeded"):
		return http.StatusBadGateway, "http_response_header_section_size"
	}
	return http.StatusBadGateway, "connection_terminated"
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &t) && t.Timeout()
}

// connectError returns the error type of a failed connection attempt.
func connectError(err error) string {
	var dns *net.DNSError
	var alert tls.AlertError
	var record tls.RecordHeaderError
	var cert *tls.CertificateVerificationError
	var host x509.HostnameError
	switch {
	case errors.As(err, &dns):
		return "dns_error"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection_refused"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "destination_ip_unroutable"
	case errors.As(err, &cert), errors.As(err, &host):
		return "tls_certificate_error"
	case errors.As(err, &alert):
		return "tls_alert_received"
	case errors.As(err, &record):
		return "tls_protocol_error"
	}
	return "destination_unavailable"
}
