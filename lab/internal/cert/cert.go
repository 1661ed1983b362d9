// Package cert creates certificates for the lab's servers.
package cert

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// A Pair is a certificate and its private key, in PEM.
type Pair struct{ Cert, Key []byte }

// New creates a self-signed certificate with a P-256 key for those host names and IP
// addresses. It is valid for a day.
func New(serial int64, hosts ...string) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("cert: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		NotBefore:    time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return Pair{}, fmt.Errorf("cert: %w", err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Pair{}, fmt.Errorf("cert: %w", err)
	}
	var p Pair
	for _, part := range []struct {
		to    *[]byte
		block pem.Block
	}{{&p.Cert, pem.Block{Type: "CERTIFICATE", Bytes: der}}, {&p.Key, pem.Block{Type: "PRIVATE KEY", Bytes: private}}} {
		var b bytes.Buffer
		if err := pem.Encode(&b, &part.block); err != nil {
			return Pair{}, fmt.Errorf("cert: %w", err)
		}
		*part.to = b.Bytes()
	}
	return p, nil
}
