package gateway_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/weir-go/weir/gateway"
)

// A Unix socket is a server: for calls, checks and probes, and with others in one pool.
func TestH37_AUnixSocketIsAServer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.sock")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "socket ", r.Host) }))
	srv.Listener.Close()
	srv.Listener = ln
	srv.Start()
	t.Cleanup(srv.Close)
	for host, want := range map[string]string{"": "socket client.test", gateway.ServerHost: "socket localhost"} {
		u := gateway.Upstream{Name: "main", Servers: []string{"unix:" + path}, Host: host}
		s := open(t, config(u))
		for _, method := range []string{"GET", "POST"} {
			if got := s.do(s.request(method, "/", nil, "Host", "client.test")); got.status != 200 || got.body != want {
				t.Errorf("%s = %d %q, %v; want %q", method, got.status, got.body, got.err, want)
			}
		}
		if got := s.g.Stats().Upstreams["main"].Servers[0]; got.URL != "unix:"+path || got.Calls != 2 || got.Failures != 0 {
			t.Errorf("Stats = %+v; want two calls of the socket", got)
		}
		u.Health.Path = "/healthz"
		if p := u.Probe(t.Context()); !p[0].Healthy || p[0].Err != nil {
			t.Errorf("Probe = %+v; want healthy", p[0])
		}
	}
}
