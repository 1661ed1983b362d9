package cli_test

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-go/weir/app/command"
)

// H16: proxy check --connect tells of each server whether the proxy could use
// it, and why not.
func TestH16_CheckConnect(t *testing.T) {
	var asked []string
	well := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.RequestURI)
	}))
	defer well.Close()
	ill := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	defer ill.Close()
	secure := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	secure.EnableHTTP2 = true
	secure.StartTLS()
	defer secure.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()

	name := file(t, fmt.Sprintf(`
upstreams:
  - name: shop
    servers: [%q, %q]
    health: {path: /health}
  - name: bare
    servers: [%q, "http://%v"]
  - name: secure
    servers: [%q]
    tls: {ca: %q}
    health: {path: /}
  - name: stranger
    servers: [%q]
  - name: mistaken
    servers: [%q, %q]
routes: [{name: all, upstream: shop, fallback: {upstream: bare, when: [down]}}]
`, well.URL, ill.URL, well.URL, closed.Addr(), secure.URL, ca, secure.URL,
		strings.Replace(well.URL, "http:", "https:", 1), strings.Replace(secure.URL, "https:", "http:", 1)))
	s := newSession()
	if code := s.run("proxy", "check", "--connect", "--json", "--config", name); code != command.ExitFailed {
		t.Errorf("exit code %d; want %d", code, command.ExitFailed)
	}
	if got := s.stderr.String(); !strings.Contains(got, "5 of 8 servers cannot be used") {
		t.Errorf("stderr %q; want how many cannot be used", got)
	}
	var got struct {
		Source  string
		Servers []struct {
			Upstream, Server, Asked, Address, TLS, Protocol, Error string
			Healthy                                                bool
			FallbackOf                                             []string `json:"fallback_of"`
			Status                                                 int
			Expires                                                string `json:"certificate_expires"`
		}
	}
	if err := json.Unmarshal([]byte(s.stdout.String()), &got); err != nil || got.Source != name {
		t.Fatalf("%v, source %q; want JSON of %q:\n%s", err, got.Source, name, s.stdout.String())
	}
	want := []struct {
		upstream, asked string
		healthy         bool
		status          int
		tls, protocol   string
		err             string // a part of it
	}{
		{"shop", "GET /health", true, 200, "", "HTTP/1.1", ""},
		{"shop", "GET /health", false, 503, "", "HTTP/1.1", ""},
		{"bare", "OPTIONS *", true, 200, "", "HTTP/1.1", ""},
		{"bare", "OPTIONS *", false, 0, "", "", "refused"},
		{"secure", "GET /", true, 200, "TLS 1.3", "HTTP/2.0", ""},
		{"stranger", "OPTIONS *", false, 0, "", "", "certificate"},
		{"mistaken", "OPTIONS *", false, 0, "", "", "write the server with http://"},
		{"mistaken", "OPTIONS *", false, 0, "", "", "write the server with https://"},
	}
	if len(got.Servers) != len(want) {
		t.Fatalf("%d servers; want %d", len(got.Servers), len(want))
	}
	for i, w := range want {
		g := got.Servers[i]
		if g.Upstream != w.upstream || g.Asked != w.asked || g.Healthy != w.healthy || g.Status != w.status || g.TLS != w.tls || g.Protocol != w.protocol || !strings.Contains(g.Error, w.err) || (g.Error == "") != (w.err == "") {
			t.Errorf("server %d: %+v\nwant %+v", i, g, w)
		}
		if fallback := fmt.Sprint(g.FallbackOf); (fallback == "[all]") != (w.upstream == "bare") {
			t.Errorf("server %d: fallback of %s", i, fallback)
		}
		if (g.Expires == "") == (w.tls != "") || w.status > 0 && g.Address == "" {
			t.Errorf("server %d: address %q, certificate until %q", i, g.Address, g.Expires)
		}
	}
	// Go's server answers OPTIONS * itself.
	if fmt.Sprint(asked) != "[GET /health]" {
		t.Errorf("the service received %q; want its health path, once", asked)
	}

	s = newSession()
	if code := s.run("proxy", "check", "--connect", "--config", name); code != command.ExitFailed {
		t.Errorf("exit code %d; want %d", code, command.ExitFailed)
	}
	for _, part := range []string{"OK: ", "upstream ", "else bare (down)", "bare (fallback of all)", "503, which is not healthy", "TLS 1.3, until ", "200 in "} {
		if !strings.Contains(s.stdout.String(), part) {
			t.Errorf("stdout lacks %q:\n%s", part, s.stdout.String())
		}
	}
}

// Without --connect no server is called; with it, and servers that are well,
// all is well.
func TestH16_CheckConnectOfWhatIsWell(t *testing.T) {
	var calls int
	well := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls++ }))
	defer well.Close()
	name := file(t, fmt.Sprintf("upstreams: [{name: a, servers: [%q], health: {path: /ok}}]\n", well.URL))
	for want, args := range [][]string{{"proxy", "check", "--config", name}, {"proxy", "check", "--connect", "--config", name}} {
		s := newSession()
		if code := s.run(args...); code != command.ExitOK || s.stderr.String() != "" {
			t.Errorf("%q: exit code %d, stderr %q; want 0 and nothing", args, code, s.stderr.String())
		}
		if calls != want {
			t.Errorf("%q: the server received %d requests; want %d", args, calls, want)
		}
	}
}
