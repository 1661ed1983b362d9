package jobshttp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/weir-go/weir/jobs/bounded"
)

// A replayed is the body of a read. It was received as a whole, and can be read again.
type replayed struct {
	*bytes.Reader
	bytes []byte
}

func replay(b []byte) *replayed { return &replayed{bytes.NewReader(b), b} }

// Close does nothing.
func (*replayed) Close() error { return nil }

// buffered returns r with its whole body, if it may be a read with a body that is small
// enough to be compared. A larger one is left as it is: each such request is a job.
func (rt *Route) buffered(w http.ResponseWriter, r *http.Request) (*http.Request, error) {
	most, ok := rt.reads.Bound(r)
	if !ok || r.Body == nil || r.ContentLength > most {
		return r, nil
	}
	limit := int64(rt.o.MaxBody)
	if r.ContentLength > limit {
		return r, &http.MaxBytesError{Limit: limit} // before the client sends any of it
	}
	body, err := bounded.All(http.MaxBytesReader(w, r.Body, limit), limit)
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return r, large
	}
	if err != nil {
		return r, fmt.Errorf("%w: %w", errUnread, err)
	}
	own := *r
	own.Body, own.ContentLength, own.TransferEncoding = replay(body), int64(len(body)), nil
	return &own, nil
}

var _ io.ReadCloser = (*replayed)(nil)
