package weirgrpc

import (
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// A recorder is the stream of a shared execution: it records the header and the trailer
// that the handler sets.
type recorder struct {
	method string

	mu              sync.Mutex
	header, trailer metadata.MD // guarded by mu
	sent            bool        // guarded by mu: SendHeader was called
	over            bool        // guarded by mu: the handler has returned
}

var _ grpc.ServerTransportStream = (*recorder)(nil)

var errSent = status.Error(codes.Internal, "weirgrpc: the header was already sent, or the handler has returned")

// Method implements grpc.ServerTransportStream.
func (r *recorder) Method() string { return r.method }

// SetHeader implements grpc.ServerTransportStream.
func (r *recorder) SetHeader(md metadata.MD) error { return r.setHeader(md, false) }

// SendHeader implements grpc.ServerTransportStream. The header is sent with the
// response.
func (r *recorder) SendHeader(md metadata.MD) error { return r.setHeader(md, true) }

func (r *recorder) setHeader(md metadata.MD, last bool) error {
	if err := checkMetadata(md); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sent || r.over {
		return errSent
	}
	r.header = metadata.Join(r.header, md)
	r.sent = last
	return nil
}

// SetTrailer implements grpc.ServerTransportStream.
func (r *recorder) SetTrailer(md metadata.MD) error {
	if err := checkMetadata(md); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return errSent
	}
	r.trailer = metadata.Join(r.trailer, md)
	return nil
}

// end returns what was recorded. Later calls of the handler's goroutines fail.
func (r *recorder) end() (header, trailer metadata.MD) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	return r.header, r.trailer
}

// checkMetadata returns the error that a handler gets for metadata that could not be
// sent: grpc would refuse it when it is replayed, and the whole header with it.
func checkMetadata(md metadata.MD) error {
	for k, values := range md {
		if !validKey(k) {
			return status.Errorf(codes.Internal, "weirgrpc: %q is not a metadata key", k)
		}
		if strings.HasSuffix(k, "-bin") {
			continue
		}
		for _, v := range values {
			for i := range len(v) {
				if v[i] < ' ' || v[i] > '~' {
					return status.Errorf(codes.Internal, "weirgrpc: the value of metadata key %q is not printable ASCII", k)
				}
			}
		}
	}
	return nil
}

// isPrivate reports whether md has something that is for one client only.
func isPrivate(md metadata.MD) bool { return len(md["set-cookie"]) > 0 || len(md["set-cookie2"]) > 0 }
