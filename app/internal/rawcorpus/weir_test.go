package rawcorpus

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/app/proxy"
	"github.com/weir-go/weir/app/proxy/config"
	"github.com/weir-go/weir/gateway"
)

// patience is a safety net: nothing is expected to take that long.
const patience = 60 * time.Second

// The configurations to which rows are sent.
var configurations = map[string]string{
	"default": "routes: []\n",
	"caching": "routes: [{name: all, cache: {ttl: 60s, stale_if_error: 60s}}]\n",
}

// A weir is weir proxy, running in this process.
type weir struct {
	plain, tls string // addresses
	gateway    *gateway.Gateway
	log        *logged
}

// start runs weir proxy in front of servers until the test ends.
func start(t testing.TB, configuration string, upstream string) *weir {
	t.Helper()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writeCertificate(t, cert, key)
	file := filepath.Join(dir, "weir.yaml")
	text := "listen:\n  - address: 127.0.0.1:0\n  - address: 127.0.0.1:0\n    tls: {cert: " + cert + ", key: " + key + "}\n" +
		"drain: {timeout: 0s}\nupstreams: [" + upstream + "]\n" + configuration
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	w := &weir{log: &logged{ready: make(chan struct{})}}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- proxy.Run(ctx, proxy.Options{
			Load: func() (proxy.Settings, error) {
				c, err := config.Load(config.Source{File: file})
				if err != nil {
					return proxy.Settings{}, err
				}
				return proxy.Configure(c)
			},
			Stdout: io.Discard, Stderr: w.log,
			New: func(c gateway.Config) (proxy.Gateway, error) {
				g, err := gateway.New(c)
				w.gateway = g
				return g, err
			},
		})
	}()
	select {
	case <-w.log.ready:
	case err := <-ended:
		stop()
		t.Fatalf("weir proxy ended: %v\n%s", err, w.log)
	}
	t.Cleanup(func() { stop(); <-ended })
	w.plain, w.tls = w.log.listen[0], w.log.listen[1]
	return w
}

// dial connects to weir, with or without TLS, for HTTP/1.1 or h2.
func (w *weir) dial(t testing.TB, secure bool, protocols ...string) net.Conn {
	t.Helper()
	address := w.plain
	if secure {
		address = w.tls
	}
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(patience))
	if !secure {
		return c
	}
	s := tls.Client(c, &tls.Config{InsecureSkipVerify: true, NextProtos: protocols})
	if err := s.Handshake(); err != nil {
		t.Fatal(err)
	}
	return s
}

// logged waits until weir is ready.
type logged struct {
	ready  chan struct{}
	listen []string // addresses; written before ready is closed, read only after

	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(p)
	var line struct {
		Msg    string
		Listen []string
	}
	if json.Unmarshal(p, &line) == nil && line.Msg == "ready" {
		for _, u := range line.Listen {
			_, address, _ := strings.Cut(u, "://")
			l.listen = append(l.listen, address)
		}
		close(l.ready)
	}
	return len(p), nil
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// writeCertificate writes the key pair of httptest.
func writeCertificate(t testing.TB, cert, key string) {
	t.Helper()
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS()
	defer s.Close()
	pair := s.TLS.Certificates[0]
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		cert: {Type: "CERTIFICATE", Bytes: pair.Certificate[0]},
		key:  {Type: "PRIVATE KEY", Bytes: der},
	} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
