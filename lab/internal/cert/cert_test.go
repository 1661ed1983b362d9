package cert_test

import (
	"crypto/tls"
	"crypto/x509"
	"testing"

	"github.com/weir-go/weir/lab/internal/cert"
)

func TestNew(t *testing.T) {
	p, err := cert.New(7, "lab.test", "127.0.0.3")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(p.Cert, p.Key)
	if err != nil {
		t.Fatalf("X509KeyPair = %v; want a certificate with its key", err)
	}
	c, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	if got := c.SerialNumber.Int64(); got != 7 {
		t.Errorf("serial number %d; want 7", got)
	}
	for host, want := range map[string]bool{"lab.test": true, "127.0.0.3": true, "other.test": false, "127.0.0.1": false} {
		if err := c.VerifyHostname(host); (err == nil) != want {
			t.Errorf("VerifyHostname(%q) = %v; want valid: %t", host, err, want)
		}
	}
}
