package grpcerrors

import (
	"context"
	"errors"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/fleet/quota"
	"github.com/weir-go/weir/limit"
)

// Of returns err, which a Guard or a limiter returned, as an error with a gRPC status.
func Of(err error) error {
	var refused *limit.Error
	var late *weir.TimeoutError
	var panicked *weir.PanicError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused):
		return retryLater(codes.Unavailable, refused.RetryAfter)
	case errors.Is(err, weir.ErrStuck), errors.Is(err, weir.ErrClosed):
		return retryLater(codes.Unavailable, time.Second)
	case errors.Is(err, weir.ErrNotFound):
		return status.Error(codes.NotFound, "not found")
	case errors.As(err, &late), errors.Is(err, context.DeadlineExceeded):
		return status.Error(codes.DeadlineExceeded, "the source did not respond in time")
	case errors.Is(err, context.Canceled):
		return status.Error(codes.Canceled, "canceled")
	case errors.As(err, &panicked), errors.Is(err, weir.ErrGoexit):
		return status.Error(codes.Internal, "internal error")
	}
	var own interface{ GRPCStatus() *status.Status }
	if errors.As(err, &own) {
		return own.GRPCStatus().Err() // without the text of the errors that wrap it
	}
	return status.Error(codes.Unknown, "the source failed")
}

// OfClient is Of for the error of a limit of this client.
func OfClient(err error) error {
	var refused *limit.Error
	var outage *quota.OutageError
	if errors.As(err, &refused) && !errors.As(err, &outage) {
		return retryLater(codes.ResourceExhausted, refused.RetryAfter)
	}
	return Of(err)
}

// retryLater says when to retry: without it, retries are the next overload.
func retryLater(code codes.Code, after time.Duration) error {
	s := status.New(code, "retry later")
	if with, err := s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(after)}); err == nil {
		s = with
	}
	return s.Err()
}
