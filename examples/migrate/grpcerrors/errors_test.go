package grpcerrors_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/examples/migrate/grpcerrors"
	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/fleet/quota"
	"github.com/weir-go/weir/limit"
)

func TestCodes(t *testing.T) {
	refused := &limit.Error{Limiter: "db", Reason: limit.QueueFull, RetryAfter: 2 * time.Second}
	outage := &quota.OutageError{Refusal: limit.Error{RetryAfter: time.Second}, Cause: fleet.ErrUnavailable}
	for _, tt := range []struct {
		err            error
		code, ofClient codes.Code
	}{
		{nil, codes.OK, codes.OK},
		{fmt.Errorf("get: %w", refused), codes.Unavailable, codes.ResourceExhausted},
		{outage, codes.Unavailable, codes.Unavailable},
		{weir.ErrStuck, codes.Unavailable, codes.Unavailable},
		{weir.ErrClosed, codes.Unavailable, codes.Unavailable},
		{fmt.Errorf("user 7: %w", weir.ErrNotFound), codes.NotFound, codes.NotFound},
		{&weir.TimeoutError{}, codes.DeadlineExceeded, codes.DeadlineExceeded},
		{context.DeadlineExceeded, codes.DeadlineExceeded, codes.DeadlineExceeded},
		{context.Canceled, codes.Canceled, codes.Canceled},
		{&weir.PanicError{Value: "secret"}, codes.Internal, codes.Internal},
		{status.Error(codes.PermissionDenied, "no"), codes.PermissionDenied, codes.PermissionDenied},
		{errors.New("password=secret"), codes.Unknown, codes.Unknown},
	} {
		if got := status.Code(grpcerrors.Of(tt.err)); got != tt.code {
			t.Errorf("Of(%v) has code %v; want %v", tt.err, got, tt.code)
		}
		if got := status.Code(grpcerrors.OfClient(tt.err)); got != tt.ofClient {
			t.Errorf("OfClient(%v) has code %v; want %v", tt.err, got, tt.ofClient)
		}
	}
	wrapped := fmt.Errorf("key secret: %w", status.Error(codes.PermissionDenied, "no"))
	if s := status.Convert(grpcerrors.Of(wrapped)); s.Code() != codes.PermissionDenied || s.Message() != "no" {
		t.Errorf("Of(%v) = %v; want the source's own status, unchanged", wrapped, s)
	}
	if n := len(status.Convert(grpcerrors.Of(weir.ErrStuck)).Details()); n != 1 {
		t.Errorf("ErrStuck has %d details; want RetryInfo", n)
	}
	details := status.Convert(grpcerrors.Of(refused)).Details()
	if len(details) != 1 || details[0].(*errdetails.RetryInfo).RetryDelay.AsDuration() != 2*time.Second {
		t.Errorf("the details of a rejection are %v; want RetryInfo of 2 s", details)
	}
}
