package weirgrpc

import (
	"fmt"

	"google.golang.org/grpc"
)

// addOptions adds the call options of a client's call. It returns those that the call
// is sent with, or false if one of them is not known to be irrelevant for others:
//
//	Header, Trailer, Empty                   filled for each caller
//	StaticMethod, UseCompressor, MaxRetryRPCBufferSize
//	                                         irrelevant
//	WaitForReady, MaxCallRecvMsgSize, MaxCallSendMsgSize, CallContentSubtype
//	                                         part of the identity
//	PerRPCCredentials, CallAuthority, Peer, OnFinish, codecs, and all others
//	                                         the call shares nothing
func (id *identity) addOptions(opts []grpc.CallOption) (kept []grpc.CallOption, ok bool) {
	wait, most, mostSent, subtype := false, -1, -1, ""
	for _, o := range opts {
		switch o := o.(type) {
		case grpc.HeaderCallOption, grpc.TrailerCallOption, grpc.EmptyCallOption:
			continue
		case grpc.StaticMethodCallOption, grpc.CompressorCallOption, grpc.MaxRetryRPCBufferSizeCallOption:
		case grpc.FailFastCallOption:
			wait = !o.FailFast
		case grpc.MaxRecvMsgSizeCallOption:
			most = o.MaxRecvMsgSize
		case grpc.MaxSendMsgSizeCallOption:
			mostSent = o.MaxSendMsgSize
		case grpc.ContentSubtypeCallOption:
			subtype = o.ContentSubtype
		default:
			return nil, false
		}
		kept = append(kept, o)
	}
	id.text(fmt.Sprint(wait, most, mostSent))
	id.text(subtype)
	return kept, true
}
