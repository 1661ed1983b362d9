package weirgrpc

import (
	"context"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/fleet/quota"
	"github.com/weir-go/weir/limit"
)

// Error returns err, an error of a Guard or a limiter, as an error with a gRPC status.
// Handlers that call a Guard can return its result. The first matching row applies:
//
//	a *weir.PanicError, weir.ErrGoexit     Internal
//	weir.ErrRecursive                      Internal
//	a status error, also wrapped           err itself
//	a *limit.Error with limit.TooMany      ResourceExhausted, without RetryInfo
//	a weir.RetryAfter                      Unavailable, with RetryInfo
//	another *limit.Error                   Unavailable, with RetryInfo
//	weir.ErrStuck, weir.ErrClosed          Unavailable, with RetryInfo of 1 s
//	a failure from another instance        its code and details
//	weir.ErrNotFound                       NotFound
//	a *weir.TimeoutError                   DeadlineExceeded
//	the end of a context                   DeadlineExceeded or Canceled
//	anything else, and nil                 err itself, which is Unknown for clients
//
// The text of weir's own errors is not passed on. A Server also sends the time of a RetryInfo
// as grpc-retry-pushback-ms in the trailer, which clients with a retry policy obey.
func Error(err error) error { return statusOf(err, false) }

// ClientError is Error for the error of a limit on one client: a *limit.Error is
// ResourceExhausted, unless the limit could not be reached (a *quota.OutageError).
func ClientError(err error) error { return statusOf(err, true) }

// statusOf is the only table from errors to codes.
func statusOf(err error, client bool) error {
	var own interface{ GRPCStatus() *status.Status }
	var refused *limit.Error
	var remote *fleet.RemoteError
	var stated *weir.RetryAfterError
	switch {
	case err == nil:
		return nil
	case errors.As(err, new(*weir.PanicError)), errors.Is(err, weir.ErrGoexit), errors.Is(err, weir.ErrRecursive):
		return status.Error(codes.Internal, "internal error")
	case errors.As(err, &own):
		return err
	case errors.As(err, &refused) && refused.Reason == limit.TooMany:
		return status.Error(codes.ResourceExhausted, "the call costs more than the limit allows")
	case errors.As(err, &refused) && client && !errors.Is(err, fleet.ErrUnavailable):
		return retryLater(codes.ResourceExhausted, "too many calls from this client", refused.RetryAfter)
	case errors.As(err, &stated) && !errors.Is(err, weir.ErrNotFound):
		return retryLater(codes.Unavailable, "the service is not available at the moment", max(stated.After(), time.Second))
	case errors.As(err, &refused):
		return retryLater(codes.Unavailable, "the service is at its limit", refused.RetryAfter)
	case errors.Is(err, weir.ErrStuck), errors.Is(err, weir.ErrClosed), errors.Is(err, quota.ErrLimiterClosed):
		return retryLater(codes.Unavailable, "the service is not available at the moment", time.Second)
	case errors.As(err, &remote):
		return statusFrom(remote)
	case errors.Is(err, weir.ErrNotFound):
		return status.Error(codes.NotFound, "not found")
	case errors.Is(err, context.DeadlineExceeded):
		return status.Error(codes.DeadlineExceeded, context.DeadlineExceeded.Error())
	case errors.Is(err, context.Canceled):
		return status.Error(codes.Canceled, context.Canceled.Error())
	}
	return err
}

// retryLater says when to retry.
func retryLater(code codes.Code, text string, after time.Duration) error {
	s := status.New(code, text)
	if with, err := s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(after)}); err == nil {
		s = with
	}
	return &laterError{s.Err(), s, after}
}

// A laterError is a status with RetryInfo. The server sends its time to clients with a
// retry policy as well (see pushback).
type laterError struct {
	error
	status *status.Status
	after  time.Duration
}

// GRPCStatus is for package status.
func (e *laterError) GRPCStatus() *status.Status { return e.status }

// Unwrap returns the error of the status.
func (e *laterError) Unwrap() error { return e.error }

// pushbackKey is the trailer with the milliseconds after which a client of gRPC retries
// (gRFC A6), instead of its backoff.
const pushbackKey = "grpc-retry-pushback-ms"

// pushback adds the time of err, if it is a laterError, to the trailer of the call with
// ctx. The call may refuse it, if it has ended.
func pushback(ctx context.Context, err error) {
	var later *laterError
	if errors.As(err, &later) {
		ms := (later.after + time.Millisecond - 1) / time.Millisecond
		_ = grpc.SetTrailer(ctx, metadata.Pairs(pushbackKey, strconv.FormatInt(int64(ms), 10)))
	}
}

// isAnswer reports whether code is a response, which a retry would not change. Other
// codes are failures of the method or of something behind it.
func isAnswer(code codes.Code) bool {
	switch code {
	case codes.NotFound, codes.InvalidArgument, codes.FailedPrecondition, codes.OutOfRange, codes.Unimplemented,
		codes.PermissionDenied, codes.Unauthenticated, codes.AlreadyExists:
		return true
	}
	return false
}

// codeOf returns the code that a client gets for err.
func codeOf(err error) codes.Code {
	if s, ok := status.FromError(err); ok {
		return s.Code()
	}
	return status.FromContextError(err).Code()
}

// A failure is a failed shared execution. It hides the error of the handler from the
// Guard, which would give some errors another meaning: a not-found that the handler got
// from its own Guard, for instance.
type failure struct {
	err             error // what callers get
	cause           error // what the handler returned
	header, trailer metadata.MD
	fleet           bool // other instances get the text
}

// ErrorType is the error.type in traces and metrics.
func (f *failure) ErrorType() string { return typeOf(codeOf(f.err)) }

// typeOf returns the name of code. The codes that others define are Unknown, because a
// label of metrics has a bounded number of values.
func typeOf(code codes.Code) string {
	if code > codes.Unauthenticated {
		code = codes.Unknown
	}
	return code.String()
}

// GRPCStatus is for Observers.
func (f *failure) GRPCStatus() *status.Status { return status.New(codeOf(f.err), f.err.Error()) }

const (
	wireBegin = " [weirgrpc:"
	wireEnd   = "]"
)

// Error returns the text of the error, in a fleet with the encoded status at its end:
// the text is all that other instances get.
func (f *failure) Error() string {
	text := f.err.Error()
	if !f.fleet {
		return text
	}
	s := status.Convert(f.err).Proto()
	s.Code = int32(codeOf(f.err))
	wire := encodeStatus(s)
	if len(wire) > fleet.MaxFailureText {
		s.Details = nil
		wire = encodeStatus(s)
	}
	for len(wire) > fleet.MaxFailureText {
		s.Message = strings.ToValidUTF8(s.Message[:len(s.Message)/2], "")
		wire = encodeStatus(s)
	}
	return text[:min(len(text), fleet.MaxFailureText-len(wire))] + wire
}

func encodeStatus(s *spb.Status) string {
	b, err := proto.Marshal(s)
	if err != nil { // the message is not UTF-8
		s.Message = strings.ToValidUTF8(s.Message, "\uFFFD")
		if b, err = proto.Marshal(s); err != nil {
			b, _ = proto.Marshal(&spb.Status{Code: s.Code})
		}
	}
	return wireBegin + base64.RawStdEncoding.EncodeToString(b) + wireEnd
}

// statusFrom returns the status of an execution that failed on another instance.
func statusFrom(remote *fleet.RemoteError) error {
	text, ok := strings.CutSuffix(remote.Text, wireEnd)
	if i := strings.LastIndex(text, wireBegin); ok && i >= 0 {
		var s spb.Status
		b, err := base64.RawStdEncoding.DecodeString(text[i+len(wireBegin):])
		if err == nil && proto.Unmarshal(b, &s) == nil && s.Code != int32(codes.OK) {
			return status.ErrorProto(&s)
		}
	}
	return status.Error(codes.Unavailable, "the call failed on another instance")
}
