package listen_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/app/proxy/listen"
)

// named writes a certificate for names with an ECDSA key, or an RSA one.
func named(t *testing.T, files listen.KeyPair, serial int64, withRSA bool, names ...string) {
	t.Helper()
	var private crypto.Signer
	var err error
	if withRSA {
		private, err = rsa.GenerateKey(rand.Reader, 2048)
	} else {
		private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	}
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), DNSNames: names}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	pk, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	write(t, files.Cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	write(t, files.Key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pk}))
}

// presented returns the serial number of the certificate for a client that asks for name.
func presented(t *testing.T, s *listen.Server, name string, change func(*tls.Config)) int64 {
	t.Helper()
	c := &tls.Config{ServerName: name, InsecureSkipVerify: true}
	if change != nil {
		change(c)
	}
	conn, err := tls.Dial("tcp", s.Address(), c)
	if err != nil {
		t.Fatalf("%q: %v", name, err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

// H27: SNI chooses the certificate, over HTTP/1.1 and HTTP/2 and on the fast path.
func TestH27_CertificatesByName(t *testing.T) {
	standard, shop, wild, old := newFiles(t), newFiles(t), newFiles(t), newFiles(t)
	named(t, standard, 1, false, "main.example")
	named(t, shop, 2, false, "shop.example", "www.shop.example")
	named(t, wild, 3, false, "*.shop.example", "*.other.example")
	named(t, old, 4, true, "shop.example")
	c := listen.Config{TLS: standard, FastPath: true, More: []listen.NamedPair{
		{KeyPair: shop}, {KeyPair: wild, Names: []string{"*.Shop.Example"}}, {KeyPair: old},
	}}
	s := serve(t, c, listen.Options{})
	for name, want := range map[string]int64{
		"": 1, "main.example": 1, "unknown.example": 1, "example": 1,
		"shop.example": 2, "SHOP.example": 2, "www.shop.example": 2, // the exact name before the wildcard
		"a.shop.example": 3, "a.b.shop.example": 1, // one label
		"a.other.example": 1, // in the certificate, but not among its names here
		"127.0.0.1":       1,
	} {
		if got := presented(t, s, name, nil); got != want {
			t.Errorf("%q: certificate %d; want %d", name, got, want)
		}
	}
	onlyRSA := func(c *tls.Config) {
		c.MaxVersion, c.CipherSuites = tls.VersionTLS12, []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256}
	}
	if got := presented(t, s, "shop.example", onlyRSA); got != 4 {
		t.Errorf("a client with RSA only got certificate %d; want 4", got)
	}
	for _, two := range []bool{false, true} {
		var p http.Protocols
		p.SetHTTP1(!two)
		p.SetHTTP2(two)
		tr := &http.Transport{Protocols: &p, TLSClientConfig: &tls.Config{ServerName: "shop.example", InsecureSkipVerify: true}}
		r, err := (&http.Client{Transport: tr}).Get("https://" + s.Address())
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		tr.CloseIdleConnections()
		if n := r.TLS.PeerCertificates[0].SerialNumber.Int64(); n != 2 || (r.ProtoMajor == 2) != two {
			t.Errorf("%s with certificate %d; want 2, and HTTP/2 %v", r.Proto, n, two)
		}
	}
}

// A renewed certificate serves its new names; a bad one takes no name away.
func TestH27_RenewedCertificates(t *testing.T) {
	standard, shop, other := newFiles(t), newFiles(t), newFiles(t)
	named(t, standard, 1, false, "main.example")
	named(t, shop, 2, false, "shop.example")
	named(t, other, 3, false, "other.example")
	logs := &heard{said: make(chan string, 100)}
	s := serve(t, listen.Config{TLS: standard, More: []listen.NamedPair{{KeyPair: shop}, {KeyPair: other}}},
		listen.Options{Logger: slog.New(slog.NewTextHandler(logs, nil)), CertInterval: time.Hour})
	check := func(when string, want map[string]int64) {
		t.Helper()
		for name, n := range want {
			if got := presented(t, s, name, nil); got != n {
				t.Errorf("%s: %q: certificate %d; want %d", when, name, got, n)
			}
		}
	}
	named(t, shop, 5, false, "shop.example", "new.example")
	s.ReloadCertificate()
	logs.await(t, shop.Cert)
	check("renewed", map[string]int64{"shop.example": 5, "new.example": 5, "other.example": 3})
	named(t, other, 6, false, "other.example", "new.example")
	s.ReloadCertificate()
	logs.await(t, "another certificate too")
	check("a name of another", map[string]int64{"shop.example": 5, "new.example": 5, "other.example": 3})
	write(t, shop.Cert, []byte("rubbish"))
	named(t, standard, 7, false, "main.example")
	s.ReloadCertificate()
	check("one bad, one good", map[string]int64{"shop.example": 5, "main.example": 7, "": 7})
	os.Remove(other.Key)
	s.ReloadCertificate()
	check("no file", map[string]int64{"other.example": 3})
}

func TestH27_CertificatesThatCannotBeChosen(t *testing.T) {
	standard, more := newFiles(t), newFiles(t)
	for _, e := range []struct {
		withRSA bool
		in      []string // names in the further certificate
		names   []string // its configured names
		want    string
	}{
		{false, []string{"b.example"}, nil, ""},
		{true, []string{"a.example"}, nil, ""},
		{false, []string{"b.example", "A.example"}, nil, `"a.example" is a name of another certificate too`},
		{false, []string{"b.example", "a.example"}, []string{"b.example"}, ""},
		{false, []string{"b.example"}, []string{"c.example"}, `"c.example" is not a name in the certificate`},
		{false, []string{"*.example"}, []string{"c.example"}, ""},
		{false, []string{"c.example"}, []string{"*.example"}, `"*.example" is not a name in the certificate`},
		{false, nil, nil, "has no DNS names"},
	} {
		named(t, standard, 1, false, "a.example")
		named(t, more, 2, e.withRSA, e.in...)
		_, err := listen.LoadCertificates(standard, []listen.NamedPair{{KeyPair: more, Names: e.names}})
		if (err == nil) != (e.want == "") || err != nil && (!strings.Contains(err.Error(), e.want) || !strings.Contains(err.Error(), more.Cert)) {
			t.Errorf("%q for %q: %v; want %q", e.in, e.names, err, e.want)
		}
	}
}
