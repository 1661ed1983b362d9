package listen

import (
	"log/slog"
	"net"
	"net/http"
	"testing"
)

// ServeOn serves h as a Server does, on a listener without a socket, until the test
// ends.
func ServeOn(t *testing.T, l net.Listener, c Config, h http.Handler) {
	s := &Server{config: c, options: Options{Handler: h, Logger: slog.New(slog.DiscardHandler)}, quit: make(chan struct{})}
	s.prepare()
	s.serve(l, func(err error) { t.Error(err) })
	t.Cleanup(func() {
		s.Leave()
		s.http.Close()
		s.running.Wait()
	})
}

// Proxied is proxied, for fuzzing.
var Proxied = proxied
