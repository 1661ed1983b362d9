package listen

import (
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"
)

// ServeOn serves h as a Server does, on a listener without a socket, until the test
// ends.
func ServeOn(t *testing.T, l net.Listener, c Config, h http.Handler) {
	ServeLingering(t, l, c, h, nil)
}

// ServeLingering is ServeOn with a Lingering.
func ServeLingering(t *testing.T, l net.Listener, c Config, h http.Handler, linger *Lingering) *Server {
	s := &Server{config: c, options: Options{Handler: h, Lingering: linger, Logger: slog.New(slog.DiscardHandler)},
		quit: make(chan struct{}), asideOver: make(chan struct{}, 1), closing: map[*framedConn]struct{}{}}
	s.prepare()
	s.serve(l, func(err error) { t.Error(err) })
	t.Cleanup(func() {
		s.Leave()
		s.cutOff()
		s.running.Wait()
	})
	return s
}

// Aside returns how many connections linger or serve a request without net/http.
func (s *Server) Aside() int64 { return s.aside.Load() }

// Silent returns how many clients have sent nothing yet.
func (s *Server) Silent() int {
	s.silent.mu.Lock()
	defer s.silent.mu.Unlock()
	return len(s.silent.conns)
}

// Proxied is proxied, for fuzzing.
var Proxied = proxied

// SetLingerStream sets how long a stream of HTTP/2 lingers, until the test ends.
func SetLingerStream(t *testing.T, d time.Duration) {
	testLinger.Store(int64(d))
	t.Cleanup(func() { testLinger.Store(0) })
}

// OverwritesHeaders reports the build tag overwrite.
const OverwritesHeaders = overwritesHeaders
