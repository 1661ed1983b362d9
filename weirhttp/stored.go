package weirhttp

import (
	"net/http"
	"time"

	"github.com/weir-go/weir/internal/responses"
	"github.com/weir-go/weir/internal/rfc9111"
)

// A Stored is a stored response that can be served unchanged to one request. It is
// for servers with a faster way to write responses that need no call; see
// [Handler.Stored].
type Stored struct {
	handler *Handler
	request *http.Request // as the policy forwards it
	fields  rfc9111.Request
	key     responses.Key
	entry   *responses.Stored
	use     use
}

// Stored returns the fresh response that is stored for r. It returns nil if ServeHTTP
// would have to call the next handler or another instance, or if r asks for a range.
// Nothing is counted, so a server may try it for any request. r must not change
// afterwards.
func (h *Handler) Stored(r *http.Request) *Stored {
	if h.o.Observe {
		return nil
	}
	own, q, ok := h.read(r)
	if !ok || q.Range {
		return nil
	}
	key := h.key(own)
	entry, u := h.find(key, own, q, h.now())
	if !u.fresh || h.paces(entry) {
		return nil
	}
	return &Stored{handler: h, request: own, fields: q, key: key, entry: entry, use: u}
}

// ServeHTTP responds to r, which must be the request that Stored was called with, as
// [Handler.ServeHTTP] does: it counts, calls Options.ClientLimiter, and refreshes
// ahead. It waits for nothing but w, and calls nothing on r's behalf. If the limiter
// rejects r, the response is that rejection.
func (s *Stored) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := s.handler
	came := h.now()
	if !h.admit(w, r, came) {
		return
	}
	turn := h.count.requests.Add(1)
	h.hot.asked(s.key, came, turn)
	h.hit(w, s.request, s.fields, s.key, s.entry, s.use)
	h.requests.Record(time.Since(came))
}
