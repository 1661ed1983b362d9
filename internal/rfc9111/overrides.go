package rfc9111

import (
	"net/http"
	"slices"
	"strings"
)

// overrides is the list that Overrides returns.
var overrides = []string{
	// Another path: Symfony, Zend and ASP.NET behind IIS, Envoy, proxies that
	// rewrite, WSGI and PSGI servers.
	"X-Original-Url", "X-Rewrite-Url", "X-Original-Uri", "X-Rewrite-Uri", "X-Original-Path", "X-Rewrite-Path",
	"X-Envoy-Original-Path", "X-Waws-Unencoded-Url", "X-Request-Uri", "X-Script-Name", "X-Path-Info",
	"Script-Name", "Path-Info",
	// Next.js takes these from the request if nothing in front removes them (GHSA-f82v-jwr5-mffw
	// and its like), and IIS the last one.
	"X-Middleware-Subrequest", "X-Now-Route-Matches", "X-Matched-Path", "X-Invoke-Path", "X-Invoke-Query", "X-Invoke-Status",
	"X-Invoke-Error", "X-Invoke-Output", "X-Ms-Original-Url", "X-Forwarded",
	// Another method.
	"X-Http-Method-Override", "X-Http-Method", "X-Method-Override", "X-Method", "X-Original-Method",
	// Another host.
	"X-Host", "X-Http-Host-Override", "X-Host-Override", "X-Backend-Host",
}

// Overrides returns the canonical names of the request fields from which
// frameworks take a URL, host or method other than the request's. They apply if a
// Policy names none.
func Overrides() []string { return slices.Clone(overrides) }

var isOverride = func() map[string]bool {
	m := make(map[string]bool)
	for _, name := range overrides {
		m[name] = true
	}
	return m
}()

// overrides reports whether a request with the field name, which is canonical,
// may mean a URL other than its own.
func (p *Policy) overrides(name string, lines []string) bool {
	if p.Overrides == nil && !worthALook(name) {
		return false
	}
	name = plain(name)
	if name == "Forwarded" {
		return !p.ForwardingDropped && !p.apart(name) && namesAHost(lines)
	}
	if p.Overrides == nil {
		return isOverride[name] && !p.apart(name)
	}
	return slices.Contains(p.Overrides, name) && !p.apart(name)
}

// plain returns name, which is canonical, with "-" for "_". An origin that receives
// fields as variables cannot tell fields with the same plain name apart (RFC 3875
// section 4.1.18).
func plain(name string) string {
	if strings.IndexByte(name, '_') < 0 {
		return name
	}
	return http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-"))
}

// worthALook tests the first letter and the length, which rules out the names
// that requests usually have.
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

// apart reports whether the field already keeps responses apart.
func (p *Policy) apart(name string) bool {
	return slices.ContainsFunc(p.Vary, func(v string) bool { return http.CanonicalHeaderKey(v) == name })
}

// namesAHost reports whether a Forwarded field (RFC 7239) has a host or a scheme,
// beyond the "for" and "by" parameters.
func namesAHost(lines []string) bool {
	for _, line := range lines {
		line = strings.ToLower(line)
		if strings.Contains(line, "host") || strings.Contains(line, "proto") {
			return true
		}
	}
	return false
}

const forwardedPrefix = "X-Forwarded-"

// forwarding reports whether proxies use the field name, which is canonical, to inform
// the origin of what the client requested. Proxies write such fields into all requests,
// so responses are stored, but kept apart by the field.
func forwarding(name string) bool {
	if name == "" || name[0] != 'X' && name[0] != 'F' {
		return false
	}
	switch name = plain(name); name {
	case "X-Forwarded-For":
		return false
	case "X-Scheme", "X-Url-Scheme", "X-Original-Host", "X-Original-Proto", "Front-End-Https":
		return true
	}
	return strings.HasPrefix(name, forwardedPrefix)
}

// written reports whether a gateway writes the field name, which is canonical, into each
// request that it forwards, with a value that tells clients, connections or requests
// apart. The request that is compared does not have that value yet, so it cannot show
// whether it would get the same response (RFC 9111 section 4.1). X-Forwarded-Proto and
// -Host are none of these: what is written follows from the key.
func (p *Policy) written(name string) bool {
	if !p.Gateway {
		return false
	}
	switch name {
	case "X-Forwarded-For", "Via", "X-Request-Id":
		return true
	case "Forwarded":
		return !p.ForwardingDropped // else no request has it
	}
	return false
}
