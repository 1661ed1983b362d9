package cli_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/app/command"
)

// secured starts a server with a certificate for a name, and returns its URL and the file
// with the certificate.
func secured(t *testing.T, name string, expires time.Time, h http.Handler) (url, ca string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: expires, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(h)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	s.StartTLS()
	t.Cleanup(s.Close)
	ca = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return s.URL, ca
}

// H27: the test uses the upstream's Host, its name in TLS and its base path, tells how
// long the certificate is valid, and ends in time.
func TestH27_CheckConnectUsesHostTLSAndBasePath(t *testing.T) {
	asked := make(chan string, 10)
	echo := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { asked <- r.Host + " " + r.RequestURI })
	good, ca := secured(t, "api.internal", time.Now().Add(75*time.Hour), echo)
	expired, oldCA := secured(t, "api.internal", time.Now().Add(-time.Hour), echo)
	mute, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	name := file(t, fmt.Sprintf(`
upstreams:
  - {name: good, servers: [%q], host: "api.internal:8443", base_path: /v1, health: {path: /up}, tls: {ca: %q}}
  - {name: expired, servers: [%q], host: api.internal, tls: {ca: %q}}
  - {name: stranger, servers: [%q], tls: {ca: %q}}
  - {name: mute, servers: ["http://%v"], health: {path: /, timeout: 10m}}
routes: [{name: all, upstream: good}]
`, good, ca, expired, oldCA, good, ca, mute.Addr()))
	s := newSession()
	if code := s.run("proxy", "check", "--connect", "--json", "--timeout", "2s", "--config", name); code != command.ExitFailed {
		t.Errorf("exit code %d, %s; want %d", code, s.stderr.String(), command.ExitFailed)
	}
	var got struct {
		Servers []struct {
			Upstream, Asked, Error string
			Healthy                bool
			Name                   string `json:"tls_name"`
		}
	}
	if err := json.Unmarshal([]byte(s.stdout.String()), &got); err != nil || len(got.Servers) != 4 {
		t.Fatalf("%v in %s", err, s.stdout.String())
	}
	for i, want := range []struct{ name, err string }{{"api.internal", ""}, {"", "expired"}, {"", "certificate"}, {"", "within --timeout"}} {
		g := got.Servers[i]
		if g.Healthy != (want.err == "") || g.Name != want.name || !strings.Contains(g.Error, want.err) {
			t.Errorf("server %d: %+v; want %+v", i, g, want)
		}
	}
	if got := got.Servers[0].Asked; got != "GET /v1/up" {
		t.Errorf("asked %q; want GET /v1/up", got)
	}
	if got := <-asked; got != "api.internal:8443 /v1/up" {
		t.Errorf("the service received %q; want the Host and the base path of the upstream", got)
	}
	s = newSession()
	s.run("proxy", "check", "--connect", "--timeout", "1s", "--config", name)
	if got := s.stdout.String(); !strings.Contains(got, "TLS 1.3, api.internal, until ") || !strings.Contains(got, "(3 days left)") {
		t.Errorf("the table lacks the name and the days left:\n%s", got)
	}
	s = newSession()
	if code := s.run("proxy", "check", "--connect", "--timeout", "1d", "--config", name); code != command.ExitUsage {
		t.Errorf("--timeout 1d: exit code %d; want %d", code, command.ExitUsage)
	}
}
