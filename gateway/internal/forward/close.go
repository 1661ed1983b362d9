package forward

import (
	"io"
	"net/http"
	"strings"
)

// closeAfterReply makes net/http close the client's connection after the
// response, even if the header is already written. There is no method for it, but
// a MaxBytesReader requests exactly that from its ResponseWriter when it reaches
// its limit.
func closeAfterReply(w http.ResponseWriter) {
	for {
		inner, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			break
		}
		w = inner.Unwrap()
	}
	one := http.MaxBytesReader(w, io.NopCloser(strings.NewReader("x")), 0)
	one.Read(make([]byte, 1))
}
