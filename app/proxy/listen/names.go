package listen

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A NamedPair is a KeyPair for the clients that ask for one of its names (SNI).
type NamedPair struct {
	KeyPair
	// Names are host names, or "*." and a domain for the names one level below it. nil
	// means the names in the certificate.
	Names []string
}

func (p NamedPair) equal(o NamedPair) bool {
	return p.KeyPair == o.KeyPair && slices.Equal(p.Names, o.Names)
}

// A Leaf is a certificate with the names that it is for. No Names means those in the
// certificate.
type Leaf struct {
	Cert  *x509.Certificate
	Names []string
}

// names returns the names that l is for, in lower case.
func (l Leaf) names() []string {
	from := l.Names
	if from == nil {
		from = l.Cert.DNSNames
	}
	names := make([]string, 0, len(from))
	for _, name := range from {
		if name = strings.ToLower(name); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// covers reports whether clients accept the certificate for a name.
func (l Leaf) covers(name string) bool {
	if strings.HasPrefix(name, "*.") {
		return slices.ContainsFunc(l.Cert.DNSNames, func(own string) bool { return strings.EqualFold(own, name) })
	}
	return l.Cert.VerifyHostname(name) == nil
}

// A NameError reports that a certificate cannot be chosen by name.
type NameError struct {
	At      int    // its position; the default is 0
	Name    string // empty if the certificate has none
	Other   int    // the position of another certificate with that name, or -1
	Problem string // in words, without the name
}

func (e *NameError) Error() string {
	if e.Name == "" {
		return e.Problem
	}
	return fmt.Sprintf("%q %s", e.Name, e.Problem)
}

// CheckNames reports what is wrong with a listener's certificates, the default first,
// each a *NameError: a name that two of them are for, unless their keys are of different
// kinds, one that clients would not accept, and a certificate without names, which no
// client would get.
func CheckNames(leaves []Leaf) []error {
	_, errs := indexNames(leaves)
	return errs
}

// indexNames returns the positions of the certificates for each name. Faulty ones are
// left out.
func indexNames(leaves []Leaf) (map[string][]int, []error) {
	index := map[string][]int{}
	var errs []error
	for i, l := range leaves {
		names := l.names()
		if len(names) == 0 && i > 0 {
			errs = append(errs, &NameError{At: i, Other: -1, Problem: "has no DNS names, so no client would get it"})
		}
		for _, name := range names {
			if !l.covers(name) {
				errs = append(errs, &NameError{At: i, Name: name, Other: -1, Problem: "is not a name in the certificate"})
				continue
			}
			same := slices.IndexFunc(index[name], func(j int) bool {
				return leaves[j].Cert.PublicKeyAlgorithm == l.Cert.PublicKeyAlgorithm
			})
			if same >= 0 {
				errs = append(errs, &NameError{At: i, Name: name, Other: index[name][same], Problem: "is a name of another certificate too, with the same kind of key"})
				continue
			}
			index[name] = append(index[name], i)
		}
	}
	return index, errs
}

// Certificates are those of a listener. The client's SNI chooses one: by the exact name,
// then by a wildcard for one label, and otherwise the default. If there is one for the
// name with each kind of key, the client's abilities decide. It is safe for concurrent
// use.
type Certificates struct {
	all   []*Certificate // the default first
	named [][]string     // their configured names; nil means those in the certificate

	mu     sync.Mutex // held while they change
	byName atomic.Pointer[map[string][]*Certificate]
}

// LoadCertificates reads a default certificate, and more.
func LoadCertificates(standard KeyPair, more []NamedPair) (*Certificates, error) {
	s := &Certificates{}
	var errs []error
	for _, p := range append([]NamedPair{{KeyPair: standard}}, more...) {
		c, err := LoadCertificate(p.KeyPair)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		s.all, s.named = append(s.all, c), append(s.named, p.Names)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	if errs := CheckNames(s.leaves(-1, nil)); len(errs) > 0 {
		for i, err := range errs {
			if e, ok := errors.AsType[*NameError](err); ok {
				errs[i] = fmt.Errorf("%s: %w", s.all[e.At].files.Cert, err)
			}
		}
		return nil, errors.Join(errs...)
	}
	s.index()
	return s, nil
}

// leaves returns the certificates in use, with that at position i replaced. i may be -1.
func (s *Certificates) leaves(i int, replaced *x509.Certificate) []Leaf {
	var all []Leaf
	for j, c := range s.all {
		l := Leaf{Cert: replaced, Names: s.named[j]}
		if i != j {
			l.Cert = c.leaf()
		}
		all = append(all, l)
	}
	return all
}

// index prepares the choice by name.
func (s *Certificates) index() {
	index, _ := indexNames(s.leaves(-1, nil))
	byName := make(map[string][]*Certificate, len(index))
	for name, at := range index {
		for _, i := range at {
			byName[name] = append(byName[name], s.all[i])
		}
	}
	s.byName.Store(&byName)
}

// Get implements tls.Config.GetCertificate.
func (s *Certificates) Get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if len(s.all) == 1 || hello.ServerName == "" {
		return s.all[0].current.Load(), nil
	}
	byName := *s.byName.Load()
	name := strings.ToLower(hello.ServerName)
	found := byName[name]
	if found == nil {
		if _, domain, ok := strings.Cut(name, "."); ok {
			found = byName["*."+domain]
		}
	}
	for _, c := range found {
		if pair := c.current.Load(); len(found) == 1 || hello.SupportsCertificate(pair) == nil {
			return pair, nil
		}
	}
	if found != nil {
		return found[0].current.Load(), nil
	}
	return s.all[0].current.Load(), nil
}

// Reload reads the files again. It returns the certificates that are new, and what is
// wrong with others, whose old certificates stay. See Certificate.Reload.
func (s *Certificates) Reload() (fresh []*Certificate, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for i, c := range s.all {
		changed, err := c.reload(func(leaf *x509.Certificate) error { return s.fits(i, leaf) })
		if err != nil {
			errs = append(errs, err)
		}
		if changed {
			fresh = append(fresh, c)
		}
	}
	if len(fresh) > 0 {
		s.index()
	}
	return fresh, errors.Join(errs...)
}

// fits returns why a certificate cannot take the place of that at position i.
func (s *Certificates) fits(i int, leaf *x509.Certificate) error {
	return errors.Join(CheckNames(s.leaves(i, leaf))...)
}

// Expires returns when the first of them expires.
func (s *Certificates) Expires() time.Time {
	first := s.all[0].Expires()
	for _, c := range s.all {
		if end := c.Expires(); end.Before(first) {
			first = end
		}
	}
	return first
}
