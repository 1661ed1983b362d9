package config_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weir-go/weir/app/proxy/config"
)

// folder is a temporary folder with certificates and secrets. It has a subfolder, conf,
// which becomes the working directory.
func folder(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	cert, key := pair(t)
	_, other := pair(t)
	shop, shopKey := pairFor(t, time.Unix(1<<33, 0), "shop.example", "*.shop.example")
	old, oldKey := pairFor(t, time.Unix(1<<30, 0), "old.example")
	for name, text := range map[string]string{
		"server.pem": cert, "server.key": key, "other.key": other,
		"shop.pem": shop, "shop.key": shopKey, "old.pem": old, "old.key": oldKey,
		"error.html": "<p>{{status}}</p>", "error.json": `{"status": {{status}}}`, "bad.html": "{{host}}", "bad.json": `{"id": {{request_id}}}`,
		"short.token": "sesame\n", "good.token": "0123456789abcdef\n", "empty": "", "two-lines": "a\nb\n",
	} {
		write(t, filepath.Join(dir, name), text)
	}
	conf := filepath.Join(dir, "conf")
	if err := os.Mkdir(conf, 0o700); err != nil {
		t.Fatal(err)
	}
	if c, ok := t.(interface{ Chdir(string) }); ok {
		c.Chdir(conf)
	}
	return dir
}

func write(t testing.TB, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// pair creates a certificate and its key.
func pair(t testing.TB) (certPEM, keyPEM string) {
	t.Helper()
	return pairFor(t, time.Unix(1<<33, 0), "weir.example")
}

func pairFor(t testing.TB, expires time.Time, names ...string) (certPEM, keyPEM string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "weir"}, DNSNames: names,
		NotBefore: time.Unix(0, 0), NotAfter: expires, IsCA: true, BasicConstraintsValid: true,
	}, &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "weir"}}, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}))
}

// one is a configuration with only an upstream, to append to.
const one = "upstreams: [{name: a, servers: [\"http://127.0.0.1:1\"]}]\n"

// load reads a text as the file weir.yaml.
func load(t testing.TB, text string) (*config.Config, config.Faults) {
	t.Helper()
	write(t, "weir.yaml", text)
	return loadFrom(t, config.Source{File: "weir.yaml"})
}

func loadFrom(t testing.TB, s config.Source) (*config.Config, config.Faults) {
	t.Helper()
	c, err := config.Load(s)
	if err == nil {
		return c, nil
	}
	faults, ok := errors.AsType[config.Faults](err)
	if !ok || len(faults) == 0 || c != nil {
		t.Fatalf("Load = %v, %T %v; want nil and Faults", c, err, err)
	}
	return nil, faults
}

// must is load for a configuration without faults.
func must(t testing.TB, s config.Source) *config.Config {
	t.Helper()
	c, faults := loadFrom(t, s)
	if faults != nil {
		t.Fatalf("Load(%+v) has faults:\n%s", s, faults.Text())
	}
	return c
}
