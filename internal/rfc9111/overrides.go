package rfc9111

import (
	"net/http"
	"slices"
	"strings"
)

// overrides are the request fields that Overrides tells.
var overrides = []string{
	// Another path: Symfony, Zend and ASP.NET behind IIS, Envoy, proxies that
	// rewrite, WSGI and PSGI servers.
	"X-Original-Url", "X-Rewrite-Url", "X-Original-Uri", "X-Rewrite-Uri", "X-Original-Path", "X-Rewrite-Path",
	"X-Envoy-Original-Path", "X-Waws-Unencoded-Url", "X-Request-Uri", "X-Script-Name", "X-Path-Info",
	"Script-Name", "Path-Info",
	// Another method.
	"X-Http-Method-Override", "X-Http-Method", "X-Method-Override", "X-Method", "X-Original-Method",
	// Another host.
	"X-Host", "X-Http-Host-Override", "X-Host-Override", "X-Backend-Host",
}

// Overrides returns the canonical names of the request fields by which frameworks
// take another URL, host or method than the request's, where a Policy names none.
func Overrides() []string { return slices.Clone(overrides) }

var isOverride = func() map[string]bool {
	m := make(map[string]bool)
	for _, name := range overrides {
		m[name] = true
	}
	return m
}()

// overrides reports whether a request with the field name, which is canonical, may
// mean another URL than it has.
func (p *Policy) overrides(name string, lines []string) bool {
	if p.Overrides == nil && !worthALook(name) {
		return false
	}
	if strings.IndexByte(name, '_') >= 0 { // an origin that is given variables reads it so
		name = http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-"))
	}
	if name == "Forwarded" {
		return !p.ForwardingDropped && !p.apart(name) && namesAHost(lines)
	}
	if p.Overrides == nil {
		return isOverride[name] && !p.apart(name)
	}
	return slices.Contains(p.Overrides, name) && !p.apart(name)
}

// worthALook is a test by the first letter and the length, for the names that
// requests usually have.
func worthALook(name string) bool {
	switch name[0] {
	case 'X':
		return true
	case 'F', 'P':
		return len(name) == len("Forwarded")
	case 'S':
		return len(name) == len("Script-Name")
	}
	return false
}

// apart reports whether answers are kept apart by the field anyway.
func (p *Policy) apart(name string) bool {
	return slices.ContainsFunc(p.Vary, func(v string) bool { return http.CanonicalHeaderKey(v) == name })
}

// namesAHost reports whether a Forwarded field says more than for whom and by whom
// it is (RFC 7239): a host or a scheme.
func namesAHost(lines []string) bool {
	for _, line := range lines {
		line = strings.ToLower(line)
		if strings.Contains(line, "host") || strings.Contains(line, "proto") {
			return true
		}
	}
	return false
}

// keepsApart reports whether the field name is one by which proxies tell the
// origin what the client has asked for. They write it into all requests, so
// answers are kept apart by it rather than not kept.
func (p *Policy) keepsApart(name string) bool {
	if name == "" || name[0] != 'X' && name[0] != 'F' {
		return false
	}
	plain := name
	if strings.IndexByte(name, '_') >= 0 {
		plain = http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-"))
	}
	switch plain {
	case "X-Forwarded-For":
		return false
	case "X-Scheme", "X-Url-Scheme", "X-Original-Host", "X-Original-Proto", "Front-End-Https":
		return true
	}
	return !p.ForwardingDropped && strings.HasPrefix(plain, "X-Forwarded-")
}
