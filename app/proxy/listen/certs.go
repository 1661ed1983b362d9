package listen

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/jobs/bounded"
)

// maxPEM bounds a file with a certificate or a key.
const maxPEM = 1 << 20

// A KeyPair names the PEM files of a certificate with its chain, and of its key.
type KeyPair struct{ Cert, Key string }

// A Certificate is a KeyPair that is read again when its files change. It is safe for
// concurrent use.
type Certificate struct {
	files   KeyPair
	current atomic.Pointer[tls.Certificate]

	mu        sync.Mutex
	cert, key []byte // guarded by mu; the contents of the files when they were last read
}

// LoadCertificate reads a KeyPair.
func LoadCertificate(files KeyPair) (*Certificate, error) {
	c := &Certificate{files: files}
	if _, err := c.Reload(); err != nil {
		return nil, err
	}
	return c, nil
}

// Get implements tls.Config.GetCertificate.
func (c *Certificate) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return c.current.Load(), nil
}

// leaf returns the certificate that is in use.
func (c *Certificate) leaf() *x509.Certificate { return c.current.Load().Leaf }

// Expires returns when the certificate expires.
func (c *Certificate) Expires() time.Time { return c.leaf().NotAfter }

// Reload reads the files, and reports whether there is a new certificate. A bad pair is
// an error, but only once: it is not reported again until the files change again. The
// old certificate is then kept. A pair is also bad if it has expired and the old one
// has not.
func (c *Certificate) Reload() (bool, error) {
	return c.reload(func(*x509.Certificate) error { return nil })
}

// reload is Reload for a certificate that must also pass check.
func (c *Certificate) reload(check func(*x509.Certificate) error) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cert, certErr := bounded.File(c.files.Cert, maxPEM)
	key, keyErr := bounded.File(c.files.Key, maxPEM)
	// Missing files count as empty, so that they are reported only once, too.
	if c.current.Load() != nil && bytes.Equal(cert, c.cert) && bytes.Equal(key, c.key) {
		return false, nil
	}
	c.cert, c.key = cert, key
	if err := errors.Join(certErr, keyErr); err != nil {
		return false, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return false, fmt.Errorf("%s and %s: %w", c.files.Cert, c.files.Key, err)
	}
	old, now := c.current.Load(), time.Now()
	if end := pair.Leaf.NotAfter; old != nil && end.Before(now) && old.Leaf.NotAfter.After(now) {
		return false, fmt.Errorf("%s: the certificate expired on %s", c.files.Cert, end.UTC().Format(time.DateOnly))
	}
	if err := check(pair.Leaf); err != nil {
		return false, fmt.Errorf("%s: %w", c.files.Cert, err)
	}
	c.current.Store(&pair)
	return true, nil
}
