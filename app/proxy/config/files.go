package config

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"unicode"

	"github.com/weir-go/weir/app/proxy/errorpage"
	"github.com/weir-go/weir/console"
)

// Limits on files that a configuration names.
const (
	MaxCertBytes   = 1 << 20 // of certificates or a key
	MaxPageBytes   = errorpage.MaxBytes
	MaxSecretBytes = 4096 // of a token, or a header's value
	// MinTokenBytes is long enough that guessing attempts lock no operator out.
	MinTokenBytes = console.LongToken
)

// AdminToken reads the token of the admin listener; "" without one.
func (c *Config) AdminToken() (string, error) {
	if c.Admin.TokenFile == "" {
		return "", nil
	}
	return readToken(c.Admin.TokenFile)
}

func readToken(name string) (string, error) {
	token, err := readSecret(name)
	if err != nil {
		return "", err
	}
	if len(token) < MinTokenBytes {
		return "", &mistake{problem: "has fewer than 16 bytes, the minimum for a token"}
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", &mistake{problem: "must be one word of printable ASCII"}
	}
	return token, nil
}

// readSecret reads a file with one line. Its errors do not contain the content.
func readSecret(name string) (string, error) {
	text, err := readFile(name, MaxSecretBytes)
	if err != nil {
		return "", err
	}
	text = bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r"))
	if len(text) == 0 {
		return "", &mistake{problem: "is empty"}
	}
	return string(text), nil
}

// noFile records that a file with a secret cannot be used. A secret that was written instead
// of the name of its file is not shown: there is no such file, and the text does
// not look like the name of one.
func (d *decoder) noFile(path, file string, err error) {
	p := d.place(path)
	if written := p.node; written != nil && d.nodes[path] != nil {
		written = resolve(written)
		_, missing := os.Stat(file)
		bare := !strings.ContainsAny(written.Value, "/.") || strings.ContainsFunc(written.Value, unicode.IsSpace)
		if bare && errors.Is(missing, fs.ErrNotExist) {
			d.hide(written)
			file, err = "…", &mistake{problem: err.Error() + "; name a file that holds the secret"}
		}
	}
	d.complain(p, file, err)
}

// exposed reports who else can read a file with a secret, or nil. Systems that mount
// secrets for one process often leave them readable by all, so it is only a warning.
func exposed(name string) *mistake {
	info, err := os.Stat(name)
	if err != nil || runtime.GOOS == "windows" || info.Mode().Perm()&0o004 == 0 {
		return nil
	}
	return &mistake{problem: "can be read by every user of this machine; run chmod 600 on it"}
}

// certificate reads a certificate and its key. ofKey reports whether the error is about
// the key.
func certificate(cert, key string) (pair tls.Certificate, ofKey bool, err error) {
	certPEM, err := readFile(cert, MaxCertBytes)
	if err != nil {
		return pair, false, err
	}
	keyPEM, err := readFile(key, MaxCertBytes)
	if err != nil {
		return pair, true, err
	}
	pair, err = tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		text := strings.TrimPrefix(err.Error(), "tls: ")
		ofKey = strings.Contains(text, "key") && !strings.Contains(text, "certificate input")
		return pair, ofKey, &mistake{problem: "cannot be used: " + text}
	}
	return pair, false, nil
}

// authorities reads certificates to trust.
func authorities(name string) (*x509.CertPool, error) {
	text, err := readFile(name, MaxCertBytes)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, &mistake{problem: "contains no PEM certificate"}
	}
	return pool, nil
}

// tlsConfig returns the TLS configuration for connections to an upstream's servers.
func (t *UpstreamTLS) tlsConfig() (*tls.Config, error) {
	if t == nil {
		return nil, nil
	}
	c := &tls.Config{ServerName: t.ServerName, MinVersion: tls.VersionTLS12}
	var err error
	if t.CA != "" {
		if c.RootCAs, err = authorities(t.CA); err != nil {
			return nil, err
		}
	}
	if t.Cert != "" && t.Key != "" {
		pair, _, err := certificate(t.Cert, t.Key)
		if err != nil {
			return nil, err
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
