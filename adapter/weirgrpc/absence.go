package weirgrpc

import (
	"encoding/base64"
	"errors"
	"strings"

	"google.golang.org/grpc/status"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/fleet"
)

// An absence is a response with the code NotFound, as a Guard knows it: an ErrNotFound,
// which it counts and keeps as such.
type absence struct {
	r     *response
	fleet bool // other instances get the text
}

// Is reports that a is a weir.ErrNotFound.
func (a *absence) Is(target error) bool { return target == weir.ErrNotFound }

// GRPCStatus is for Observers.
func (a *absence) GRPCStatus() *status.Status { return status.Convert(a.r.err) }

const metadataBegin = " [weirgrpc-metadata:"

// Error returns the text of the error, in a fleet with the encoded metadata and status at
// its end: the text is all that other instances get.
func (a *absence) Error() string {
	text := a.r.err.Error()
	if !a.fleet {
		return text
	}
	md := appendMetadata(appendMetadata(nil, a.r.header), a.r.trailer)
	return text + metadataBegin + base64.RawStdEncoding.EncodeToString(md) + wireEnd + encodeStatus(status.Convert(a.r.err).Proto())
}

// absenceFrom returns the response of an absence that another instance has told of.
func absenceFrom(remote *fleet.RemoteError) *response {
	r := &response{err: statusFrom(remote)}
	if !isAnswer(codeOf(r.err)) { // the text is not one of weirgrpc
		r.err = statusOf(weir.ErrNotFound, false)
	}
	text := remote.Text
	if i := strings.LastIndex(text, wireBegin); i >= 0 {
		text = text[:i]
	}
	text, ok := strings.CutSuffix(text, wireEnd)
	if i := strings.LastIndex(text, metadataBegin); ok && i >= 0 {
		b, err := base64.RawStdEncoding.DecodeString(text[i+len(metadataBegin):])
		in := &reader{b: b}
		header, trailer := in.metadata(), in.metadata()
		if err == nil && !in.failed && len(in.b) == 0 {
			r.header, r.trailer = header, trailer
		}
	}
	return r
}

// responseOf returns the response in the result of a Guard; false for a failure.
func responseOf(got weir.Result[*response]) (r *response, ok bool) {
	var a *absence
	var remote *fleet.RemoteError
	switch {
	case got.Err == nil:
		return got.Value, true
	case errors.As(got.Err, &a):
		return a.r, true
	case errors.Is(got.Err, weir.ErrNotFound) && errors.As(got.Err, &remote):
		return absenceFrom(remote), true
	}
	return nil, false
}
