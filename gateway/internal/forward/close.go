package forward

import (
	"io"
	"net/http"
	"strings"
)

// closeAfterReply has net/http close the client's connection after the answer,
// though its head is written. There is no method for it, but a MaxBytesReader
// says just that to its ResponseWriter when it meets its limit.
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
