package listen_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pires/go-proxyproto"

	"github.com/weir-go/weir/app/proxy/listen"
	"github.com/weir-go/weir/weirhttp"
)

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// open opens a server and closes it at the end of the test.
func open(t *testing.T, c listen.Config, o listen.Options, old *listen.Server) *listen.Server {
	t.Helper()
	if c.Address == "" {
		c.Address = "127.0.0.1:0"
	}
	if o.Handler == nil {
		o.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, r.Proto+" "+r.RemoteAddr)
		})
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s, err := listen.Open(c, o, old)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func serve(t *testing.T, c listen.Config, o listen.Options) *listen.Server {
	t.Helper()
	s := open(t, c, o, nil)
	s.Serve(func(err error) { t.Error(err) })
	return s
}

func dial(t *testing.T, s *listen.Server) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", s.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(20 * time.Second))
	return c
}

// ask sends before and then a request, and returns the status and the body.
func ask(t *testing.T, c net.Conn, before string) (int, string) {
	t.Helper()
	io.WriteString(c, before+"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0, err.Error()
	}
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, err.Error()
	}
	return r.StatusCode, string(b)
}

func TestH19_ProxyProtocolFromTrustedPeersOnly(t *testing.T) {
	var v2 bytes.Buffer
	h := proxyproto.HeaderProxyFromAddrs(2,
		&net.TCPAddr{IP: net.ParseIP("203.0.113.9"), Port: 1234}, &net.TCPAddr{IP: net.ParseIP("198.51.100.1"), Port: 80})
	if _, err := h.WriteTo(&v2); err != nil {
		t.Fatal(err)
	}
	strangers := []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}
	for _, tt := range []struct {
		name    string
		trusted []netip.Prefix
		before  string
		status  int
		body    string
	}{
		{"trusted", loopback, v2.String(), 200, "HTTP/1.1 203.0.113.9:1234"},
		{"trusted, but silent", loopback, "", 0, ""},
		{"a stranger's word", strangers, v2.String(), 400, "400 Bad Request"},
		{"a stranger without", strangers, "", 200, "HTTP/1.1 127.0.0.1:"},
		{"switched off", nil, v2.String(), 400, "400 Bad Request"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, listen.Config{ProxyProtocol: tt.trusted}, listen.Options{})
			status, body := ask(t, dial(t, s), tt.before)
			if status != tt.status || !strings.HasPrefix(body, tt.body) {
				t.Errorf("%d %q; want %d %q", status, body, tt.status, tt.body)
			}
		})
	}
}

// A broken response to an HTTP/1.0 client ends with a reset, because the end of the
// connection would be the end of the body. A TLS close notification before the reset
// would also make the body look complete.
func TestH5_BrokenAnswerToOldClientIsReset(t *testing.T) {
	half := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "half")
		w.(http.Flusher).Flush()
		if r.URL.Path == "/broken" {
			panic(http.ErrAbortHandler)
		}
	})
	cached, err := weirhttp.New(half, weirhttp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, h := range map[string]http.Handler{"a handler": half, "the cache": cached} {
		t.Run(name, func(t *testing.T) {
			slots := listen.NewSlots(10)
			for _, secure := range []bool{false, true} {
				config := listen.Config{}
				if secure {
					config.TLS = certified(t)
				}
				s := serve(t, config, listen.Options{Slots: slots, Handler: h})
				for path, want := range map[string]error{"/broken": syscall.ECONNRESET, "/whole": nil} {
					c := dial(t, s)
					if secure {
						c = tls.Client(c, &tls.Config{InsecureSkipVerify: true})
					}
					io.WriteString(c, "GET "+path+" HTTP/1.0\r\nHost: h\r\n\r\n")
					if _, err := io.ReadAll(c); !errors.Is(err, want) {
						t.Errorf("%s, with TLS %v, ended with %v; want %v", path, secure, err, want)
					}
					c.Close()
				}
			}
			for end := time.Now().Add(10 * time.Second); slots.Taken() > 0; runtime.Gosched() {
				if time.Now().After(end) {
					t.Fatalf("%d slots are taken; want 0", slots.Taken())
				}
			}
		})
	}
}

func TestSlotsBoundConnections(t *testing.T) {
	slots := listen.NewSlots(1)
	s := serve(t, listen.Config{}, listen.Options{Slots: slots})
	first, second := dial(t, s), dial(t, s)
	if status, _ := ask(t, first, ""); status != 200 {
		t.Fatalf("the first connection got %d", status)
	}
	answered := make(chan int, 1)
	go func() { status, _ := ask(t, second, ""); answered <- status }()
	select {
	case status := <-answered:
		t.Errorf("the second connection got %d while the first had the only slot", status)
	case <-time.After(50 * time.Millisecond):
	}
	if n := slots.Taken(); n != 1 {
		t.Errorf("%d slots are taken; want 1", n)
	}
	first.Close()
	if status := <-answered; status != 200 {
		t.Errorf("the second connection got %d when the first had left", status)
	}
	slots.SetMost(2)
	if status, _ := ask(t, dial(t, s), ""); status != 200 {
		t.Errorf("a connection got %d with one more slot", status)
	}
	dial(t, s) // waits for a slot, which must not block Close
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// The server that takes over the socket serves the connections that wait to be
// accepted.
func TestSocketIsHandedOver(t *testing.T) {
	named := func(name string) listen.Options {
		return listen.Options{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, name) })}
	}
	old := open(t, listen.Config{}, named("old"), nil) // which does not accept connections yet
	waiting := dial(t, old)
	fresh := open(t, old.Config(), named("fresh"), old)
	if fresh.Address() != old.Address() {
		t.Fatalf("the new server listens on %s; want %s", fresh.Address(), old.Address())
	}
	old.Close()
	fresh.Serve(func(err error) { t.Error(err) })
	if status, body := ask(t, waiting, ""); status != 200 || body != "fresh" {
		t.Errorf("the waiting connection got %d %q; want a response from the new server", status, body)
	}
}

// A connection that is accepted while its server retires is served, even if it has to
// wait for a slot.
func TestRetiringServerDropsNobody(t *testing.T) {
	for range 20 {
		slots := listen.NewSlots(1)
		s := serve(t, listen.Config{}, listen.Options{Slots: slots})
		first := dial(t, s)
		if status, _ := ask(t, first, ""); status != 200 {
			t.Fatalf("the first connection got %d", status)
		}
		second := dial(t, s) // accepted and waiting for a slot, or about to be
		next := open(t, s.Config(), listen.Options{Slots: slots}, s)
		go s.Retire(t.Context(), nil)
		next.Serve(func(err error) { t.Error(err) })
		answered := make(chan string, 1)
		go func() {
			status, body := ask(t, second, "")
			answered <- fmt.Sprint(status, " ", body)
		}()
		first.Close() // because the new server respects the bound
		if a := <-answered; !strings.HasPrefix(a, "200 ") {
			t.Fatalf("the second connection got %s; want 200", a)
		}
	}
}

func TestRetiredServerFinishesAndLetsGo(t *testing.T) {
	came, may := make(chan struct{}), make(chan struct{})
	s := serve(t, listen.Config{}, listen.Options{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(came)
		<-may
		io.WriteString(w, "done")
	})})
	c := dial(t, s)
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	<-came
	hurry, gone := make(chan struct{}), make(chan error, 1)
	close(hurry)
	go func() { gone <- s.Retire(t.Context(), hurry) }()
	close(may)
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := io.ReadAll(r.Body); string(b) != "done" {
		t.Errorf("the request got %q; want its response", b)
	}
	if err := <-gone; err != nil {
		t.Errorf("Retire = %v; want nil", err)
	}
}

// H19: a shutdown does not wait for clients that have sent nothing: no byte of a TLS
// handshake, or no byte of a request.
func TestH19_ShutdownDoesNotWaitForSilentClients(t *testing.T) {
	for _, kind := range []string{"plain", "before the TLS handshake", "after the TLS handshake"} {
		t.Run(kind, func(t *testing.T) {
			config := listen.Config{FastPath: true}
			if kind != "plain" {
				config.TLS = certified(t)
			}
			slots := listen.NewSlots(10)
			s := serve(t, config, listen.Options{Slots: slots})
			c := dial(t, s)
			if kind == "after the TLS handshake" {
				c = tls.Client(c, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
				if err := c.(*tls.Conn).Handshake(); err != nil {
					t.Fatal(err)
				}
			}
			for end := time.Now().Add(10 * time.Second); slots.Taken() == 0 || s.Silent() == 0; runtime.Gosched() {
				if time.Now().After(end) {
					t.Fatal("the connection was not accepted")
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second) // net/http waits for 5
			defer cancel()
			if err := s.Shutdown(ctx); err != nil {
				t.Errorf("Shutdown = %v; want nil", err)
			}
			if b, err := io.ReadAll(c); len(b) > 0 || err != nil {
				t.Errorf("the client got %q, %v; want the end", b, err)
			}
		})
	}
}

func TestShutdownTellsThatItCut(t *testing.T) {
	came := make(chan struct{})
	s := serve(t, listen.Config{}, listen.Options{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(came)
		<-r.Context().Done()
	})})
	io.WriteString(dial(t, s), "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	<-came
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Shutdown = %v; want %v", err, context.Canceled)
	}
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	s := open(t, listen.Config{}, listen.Options{}, nil)
	for _, tt := range []struct {
		c    listen.Config
		want string
	}{
		{listen.Config{Address: s.Address()}, "the address is in use"},
		{listen.Config{Address: "192.0.2.1:0"}, "this machine has no such address"},
		{listen.Config{Address: "127.0.0.1:0", TLS: listen.KeyPair{Cert: "none.pem", Key: "none.pem"}}, "none.pem"},
	} {
		_, err := listen.Open(tt.c, listen.Options{}, nil)
		if err == nil || !strings.HasPrefix(err.Error(), "listen on "+tt.c.Address+": ") || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Open(%q) = %v; want the address and %q", tt.c.Address, err, tt.want)
		}
	}
}

// pair writes a certificate for 127.0.0.1 and its key.
func pair(t *testing.T, files listen.KeyPair, serial int64, expires time.Time) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: expires, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	pk, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	key = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pk})
	write(t, files.Cert, cert)
	write(t, files.Key, key)
	return cert, key
}

func write(t *testing.T, name string, b []byte) {
	t.Helper()
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func newFiles(t *testing.T) listen.KeyPair {
	dir := t.TempDir()
	return listen.KeyPair{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
}

// serial returns the serial number of the certificate that a server presents.
func serial(t *testing.T, s *listen.Server) int64 {
	t.Helper()
	c, err := tls.Dial("tcp", s.Address(), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

func TestH19_CertificateIsReplacedWhenItsFilesChange(t *testing.T) {
	files, later := newFiles(t), time.Now().Add(time.Hour)
	pair(t, files, 1, later)
	logs := &heard{said: make(chan string, 100)}
	s := serve(t, listen.Config{TLS: files}, listen.Options{Logger: slog.New(slog.NewTextHandler(logs, nil)), CertInterval: 10 * time.Millisecond})
	if n := serial(t, s); n != 1 {
		t.Fatalf("the server presents certificate %d; want 1", n)
	}
	pair(t, files, 2, later)
	logs.await(t, "certificate replaced")
	if n := serial(t, s); n != 2 {
		t.Errorf("the server presents certificate %d; want 2", n)
	}
	write(t, files.Cert, []byte("rubbish"))
	logs.await(t, "keeping the current one")
	if n := serial(t, s); n != 2 {
		t.Errorf("after a bad file the server presents certificate %d; want 2", n)
	}
}

// heard passes on the log lines.
type heard struct{ said chan string }

func (h *heard) Write(p []byte) (int, error) { h.said <- string(p); return len(p), nil }

func (h *heard) await(t *testing.T, text string) {
	t.Helper()
	for end := time.After(20 * time.Second); ; {
		select {
		case line := <-h.said:
			if strings.Contains(line, text) {
				return
			}
		case <-end:
			t.Fatalf("%q was not logged", text)
		}
	}
}

func TestH19_BadCertificateKeepsTheOldAndIsToldOnce(t *testing.T) {
	files, later := newFiles(t), time.Now().Add(time.Hour)
	cert, key := pair(t, files, 1, later)
	c, err := listen.LoadCertificate(files)
	if err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(){
		"rubbish":         func() { write(t, files.Cert, []byte("rubbish")) },
		"another's key":   func() { pair(t, files, 2, later); write(t, files.Cert, cert) },
		"no file":         func() { os.Remove(files.Key) },
		"expired already": func() { pair(t, files, 3, time.Now().Add(-time.Hour)) },
	} {
		spoil()
		if fresh, err := c.Reload(); fresh || err == nil {
			t.Errorf("%s: Reload = %v, %v; want an error", name, fresh, err)
		}
		if fresh, err := c.Reload(); fresh || err != nil {
			t.Errorf("%s: the second Reload = %v, %v; want nothing new", name, fresh, err)
		}
		if now, _ := c.Get(nil); now.Leaf.SerialNumber.Int64() != 1 {
			t.Errorf("%s: the certificate is %v; want the old one", name, now.Leaf.SerialNumber)
		}
		write(t, files.Cert, cert)
		write(t, files.Key, key)
		if _, err := c.Reload(); err != nil {
			t.Errorf("%s, and back: %v", name, err)
		}
	}
}

func TestProtocols(t *testing.T) {
	files := newFiles(t)
	pair(t, files, 1, time.Now().Add(time.Hour))
	secure := serve(t, listen.Config{TLS: files}, listen.Options{})
	clear := serve(t, listen.Config{H2C: true}, listen.Options{})
	for _, tt := range []struct {
		url       string
		protocols func(*http.Protocols)
		want      string
	}{
		{"https://" + secure.Address(), func(p *http.Protocols) { p.SetHTTP2(true) }, "HTTP/2.0"},
		{"https://" + secure.Address(), func(p *http.Protocols) { p.SetHTTP1(true) }, "HTTP/1.1"},
		{"http://" + clear.Address(), func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) }, "HTTP/2.0"},
		{"http://" + clear.Address(), func(p *http.Protocols) { p.SetHTTP1(true) }, "HTTP/1.1"},
	} {
		var p http.Protocols
		tt.protocols(&p)
		tr := &http.Transport{Protocols: &p, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
		r, err := (&http.Client{Transport: tr}).Get(tt.url)
		if err != nil {
			t.Errorf("%s: %v", tt.url, err)
			continue
		}
		b, _ := io.ReadAll(r.Body)
		r.Body.Close()
		tr.CloseIdleConnections()
		if !strings.HasPrefix(string(b), tt.want) {
			t.Errorf("%s answered %q; want %s", tt.url, b, tt.want)
		}
	}
}

// Several servers can share slots while they start and stop.
func TestSlotsUnderRace(t *testing.T) {
	slots := listen.NewSlots(3)
	s := serve(t, listen.Config{}, listen.Options{Slots: slots})
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			c, err := net.Dial("tcp", s.Address())
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			if status, body := ask(t, c, ""); status != 200 {
				t.Errorf("%d %s", status, body)
			}
		})
	}
	all.Wait()
	s.Close()
	if n := slots.Taken(); n != 0 {
		t.Errorf("%d slots are taken without a connection", n)
	}
}
