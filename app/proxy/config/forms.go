package config

import (
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/jobs/jobshttp"
	"github.com/weir-go/weir/weirhttp"
)

// A form is the required syntax of a text value.
type form struct {
	label string // in the documents
	check func(text string) *mistake
}

// forms maps names in tags to forms. Empty text matches none of them.
var forms = map[string]form{
	"address": {"host:port", checkAddress},
	"server":  {"URL", checkServer},
	"network": {"address or network", checkNetwork},
	"file":    {"file name", checkFile("must be the name of a file")},
	"dir":     {"folder name", checkFile("must be the name of a folder")},
	"host":    {"host name or address", checkHost},
	"pattern": {"host or *.host", checkPattern},
	"path":    {"path", checkPath},
	"prefix":  {"path or =path", checkPrefix},
	"method":  {"method", checkMethod},
	"field":   {"header name", checkField},
	"token":   {"cookie name", checkCookieName},
	"cookie":  {"cookie name or *", checkCookie},
	"name":    {"name", matching(regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._-]{0,63}$`), "must be 1 to 64 letters, digits, dots, dashes and underscores, starting with a letter")},
	"param":   {"parameter name or name*", checkParam},
	"base":    {"path", checkBase},
	"nats":    {"nats://host:port", checkNATS},
	"folder":  {"path", checkFolder},
	"otlp":    {"URL", checkOTLP},

	"namespace": {"name", matching(regexp.MustCompile(`^[A-Za-z0-9_-]{1,32}$`), "must be 1 to 32 letters, digits, dashes and underscores")},

	"route": {"name", checkRouteName},

	"principal": {"header name or cookie:NAME", checkPrincipal},

	"hostfield":    {"preserve, server, or host", checkHostField},
	"cost pointer": {"JSON pointer", checkCostPointer},

	"currency": {"three capitals", matching(regexp.MustCompile(`^[A-Z]{3}$`), "must be the code of a currency, three capitals such as EUR")},

	"client":   {"address or header:NAME", checkClient},
	"key part": {"path, client, query:NAME, header:NAME or body:/pointer", checkKeyPart},

	"event data": {"text", checkEventText(1024, "\r", "must be at most 1024 bytes, without CR")},
	"event type": {"event type", checkEventText(256, "\r\n", "must be one line of at most 256 bytes")},

	"ignored field": {"header name or *", checkIgnoredField},
	"field pattern": {"header name, NAME-* or *", checkFieldPattern},

	"readmethod": {"method", checkReadMethod},
	"media":      {"media type", checkMedia},
	"pointer":    {"JSON pointer", checkPointer},
	"condition":  {"JSON pointer = values", checkCondition},
}

// whole is a check of names. It rejects patterns: a star is allowed in a token, but no list of
// names matches by it except those that say so.
func whole(what, patterns string) func(text string) *mistake {
	return func(text string) *mistake {
		switch {
		case !token.MatchString(text):
			return &mistake{problem: "must be the name of a " + what}
		case strings.Contains(text, "*"):
			return &mistake{problem: "must be the whole name of a " + what + ": " + patterns}
		}
		return nil
	}
}

var (
	checkField      = whole("header field", "only cache.unkeyed_headers takes patterns")
	checkCookieName = whole("cookie", "no list of cookies takes patterns; ignore_cookies: [\"*\"] means all")
	checkMethodName = whole("method", "no list of methods takes patterns; without methods, all match")
)

func checkIgnoredField(text string) *mistake {
	if text == "*" {
		return nil
	}
	return checkField(text)
}

func checkFieldPattern(text string) *mistake {
	if name := strings.TrimSuffix(text, "*"); text != "*" && (!token.MatchString(name) || strings.Contains(name, "*")) {
		return &mistake{problem: "must be the name of a header field, the beginning of one with a star at the end, such as X-Acme-*, or *"}
	}
	return nil
}

var (
	token    = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}$")
	hostname = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_-]{0,62})(\.[A-Za-z0-9_]([A-Za-z0-9_-]{0,62}))*\.?$`)
)

// checkEventText returns a check of a text that is compared with those in events.
func checkEventText(most int, without, problem string) func(string) *mistake {
	return func(text string) *mistake {
		if text == "" || len(text) > most || strings.ContainsAny(text, without) {
			return &mistake{problem: problem + ", and not empty"}
		}
		return nil
	}
}

// checkCostPointer checks a JSON pointer to a cost, as package weirhttp reads it.
func checkCostPointer(text string) *mistake {
	m := &mistake{problem: "must be a JSON pointer such as /usage/total_tokens: up to 16 names of up to 256 bytes, each after a slash"}
	if !strings.HasPrefix(text, "/") {
		if p := "/" + strings.TrimPrefix(strings.ReplaceAll(text, ".", "/"), "$/"); (weirhttp.Options{Cost: weirhttp.Cost{Usage: p}}).Validate() == nil {
			m.suggestion = p
		}
		return m
	}
	if (weirhttp.Options{Cost: weirhttp.Cost{Usage: text}}).Validate() != nil {
		return m
	}
	return nil
}

func matching(re *regexp.Regexp, problem string) func(string) *mistake {
	return func(text string) *mistake {
		if re.MatchString(text) {
			return nil
		}
		return &mistake{problem: problem}
	}
}

func isHost(text string) bool {
	if _, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil {
		return true
	}
	return len(text) <= 253 && hostname.MatchString(text)
}

func checkHost(text string) *mistake {
	if isHost(text) {
		return nil
	}
	m := &mistake{problem: "must be a host name or an address, without a port"}
	if u, err := url.Parse(text); err == nil && u.Host != "" && isHost(u.Hostname()) {
		m.suggestion = u.Hostname()
	} else if host, _, err := net.SplitHostPort(text); err == nil && isHost(host) {
		m.suggestion = host
	}
	return m
}

func checkPattern(text string) *mistake {
	if rest, ok := strings.CutPrefix(text, "*."); ok && hostname.MatchString(rest) {
		return nil
	}
	if m := checkHost(text); m != nil {
		m.problem = "must be a host without a port, or *.host for all names below it"
		if strings.HasPrefix(text, ".") && hostname.MatchString(text[1:]) {
			m.suggestion = "*" + text
		}
		return m
	}
	return nil
}

func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && strconv.FormatUint(n, 10) == text
}

func checkAddress(text string) *mistake {
	host, port, err := net.SplitHostPort(text)
	if err == nil && isPort(port) && (host == "" || isHost(host)) {
		return nil
	}
	m := &mistake{problem: "must be host:port, with a port from 0 to 65535"}
	bare := strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(text, "https://"), "http://"), "/")
	switch {
	case isPort(text):
		m.suggestion = "127.0.0.1:" + text // not every interface, unless that is written
	case bare != text && checkAddress(bare) == nil:
		m.suggestion = bare
	case err != nil && strings.Count(text, ":") > 1 && isHost(text):
		m.problem = "must be host:port, with an IPv6 address in brackets, such as [::1]:8080"
	case err != nil && isHost(text):
		m.suggestion = net.JoinHostPort(text, "8080")
	}
	return m
}

func checkServer(text string) *mistake {
	const want, ofURL = "must be http://host:port, https://host:port, h2c://host:port or unix:/path", "must be http://host:port, https://host:port or h2c://host:port"
	if path, socket := strings.CutPrefix(text, "unix:"); socket {
		if gateway.IsSocket(path) {
			return nil
		}
		return &mistake{problem: "must be unix: and the absolute path of a socket, of at most 103 letters, digits and characters such as - _ . /"}
	}
	u, err := url.Parse(text)
	switch {
	case err == nil && u.User != nil:
		return &mistake{problem: ofURL + ", without a user and password; set_from_file can send them"}
	case err == nil && (u.Scheme == "http" || u.Scheme == "https" || u.Scheme == "h2c") && isHost(u.Hostname()):
		if port := u.Port(); strings.HasSuffix(u.Host, ":") || port != "" && (!isPort(port) || port == "0") {
			return &mistake{problem: ofURL + ", with a port from 1 to 65535"}
		}
		if bare := (&url.URL{Scheme: u.Scheme, Host: u.Host}).String(); bare != text && bare+"/" != text {
			return &mistake{ofURL + ", without a path; base_path of the upstream can add one", bare}
		}
		return nil
	case checkAddress(text) == nil && !strings.HasPrefix(text, ":") && checkServer("http://"+text) == nil:
		return &mistake{want, "http://" + text}
	case isPort(text) && text != "0":
		return &mistake{want, "http://127.0.0.1:" + text}
	}
	return &mistake{problem: want}
}

func checkNATS(text string) *mistake {
	const want = "must be nats://host:port or tls://host:port"
	u, err := url.Parse(text)
	switch {
	case err == nil && u.User != nil:
		return &mistake{problem: want + ", without a user and password; use username and password_file"}
	case err == nil && (u.Scheme == "nats" || u.Scheme == "tls") && isHost(u.Hostname()) && isPort(u.Port()) && u.Scheme+"://"+u.Host == text:
		return nil
	case checkAddress(text) == nil && !strings.HasPrefix(text, ":") && checkNATS("nats://"+text) == nil:
		return &mistake{want, "nats://" + text}
	}
	return &mistake{problem: want}
}

func checkFolder(text string) *mistake {
	if isPath(text) && strings.HasSuffix(text, "/") && text != "/" && !strings.ContainsAny(text, "?%*") {
		return nil
	}
	m := &mistake{problem: "must begin and end with / and contain more than that"}
	if bare := strings.Trim(text, "/"); bare != "" && isPath("/"+bare+"/") && !strings.ContainsAny(bare, "?%*") {
		m.suggestion = "/" + bare + "/"
	}
	return m
}

func checkNetwork(text string) *mistake {
	if _, err := parseNetwork(text); err == nil {
		return nil
	}
	m := &mistake{problem: "must be an address or a network such as 10.0.0.0/8"}
	if p, err := netip.ParsePrefix(text); err == nil {
		m.problem += ", without bits set beyond its prefix length"
		m.suggestion = p.Masked().String()
	}
	return m
}

// parseNetwork reads a network. An address becomes a network of just that address.
func parseNetwork(text string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(text); err == nil {
		if a.Zone() != "" {
			return netip.Prefix{}, &mistake{problem: "has a zone"}
		}
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err == nil && p != p.Masked() {
		return p, &mistake{problem: "has bits set beyond its prefix length"}
	}
	return p, err
}

func checkFile(problem string) func(string) *mistake {
	return func(text string) *mistake {
		if text == "" || strings.ContainsRune(text, 0) {
			return &mistake{problem: problem}
		}
		return nil
	}
}

func isPath(text string) bool {
	return strings.HasPrefix(text, "/") && !strings.ContainsAny(text, "# \t\r\n")
}

func checkPath(text string) *mistake {
	if isPath(text) {
		return nil
	}
	m := &mistake{problem: "must be a path that begins with /, without fragment or spaces"}
	if text != "" && isPath("/"+text) {
		m.suggestion = "/" + text
	}
	return m
}

func checkPrefix(text string) *mistake {
	bare, exact := strings.CutPrefix(text, "=")
	i := strings.IndexAny(bare, "?*")
	if i < 0 && isPath(bare) {
		return nil
	}
	m := &mistake{problem: "must be a path that begins with /, or = and a path for that path alone"}
	if i >= 0 {
		m.problem = "must be a path without ? and *; it matches everything below it"
		bare = strings.TrimRight(bare[:i], "/")
	}
	if bare = "/" + strings.TrimPrefix(bare, "/"); !exact && text != "" && isPath(bare) {
		m.suggestion = bare
	}
	return m
}

// checkBase checks a path in front of other paths.
func checkBase(text string) *mistake {
	bare := strings.TrimRight(text, "/")
	if isPath(text) && bare == text && !strings.ContainsAny(text, "?*") && !strings.HasPrefix(text, "//") {
		return nil
	}
	m := &mistake{problem: "must be a path that begins with / and does not end with it, without ? and *"}
	if bare = "/" + strings.TrimLeft(bare, "/"); bare != "/" && bare != text && checkBase(bare) == nil {
		m.suggestion = bare
	}
	return m
}

// checkParam checks the name of a query parameter, or its beginning.
func checkParam(text string) *mistake {
	if len(text) > 256 {
		return &mistake{problem: "must have at most 256 bytes"}
	}
	if text != "" && !strings.ContainsAny(strings.TrimSuffix(text, "*"), "*&?=") {
		return nil
	}
	m := &mistake{problem: "must be the name of a query parameter, perhaps with * at its end"}
	if bare := strings.Trim(text, "&?="); bare != text && bare != "" && checkParam(bare) == nil {
		m.suggestion = bare
	}
	return m
}

// checkHostField checks what is sent as Host.
func checkHostField(text string) *mistake {
	host := text
	if h, port, err := net.SplitHostPort(text); err == nil && isPort(port) && port != "0" {
		host = h
	}
	if near := nearest(text, []string{"preserve", "server"}); near != "" && near != text && !strings.ContainsAny(text, ".:") {
		return &mistake{"must be preserve, server, or a host, perhaps with a port", near}
	}
	if isHost(host) && (host != text || !strings.Contains(text, ":") || strings.HasPrefix(text, "[")) {
		return nil
	}
	m := &mistake{problem: "must be preserve, server, or a host, perhaps with a port"}
	if u, err := url.Parse(text); err == nil && u.Host != "" && checkHostField(u.Host) == nil {
		m.suggestion = u.Host
	}
	return m
}

func checkMethod(text string) *mistake {
	m := &mistake{problem: "must be a method, in capital letters"}
	if !token.MatchString(text) {
		return m
	}
	if strings.Contains(text, "*") {
		return checkMethodName(text)
	}
	if upper := strings.ToUpper(text); upper != text {
		m.suggestion = upper
		return m
	}
	if text == "CONNECT" {
		return &mistake{problem: "is not allowed: CONNECT is rejected"}
	}
	return nil
}

func checkRouteName(text string) *mistake {
	if jobshttp.ValidName(text) {
		return nil
	}
	return &mistake{problem: "must be 1 to 59 letters, digits, dashes and underscores, and not end in -once"}
}

func checkCookie(text string) *mistake {
	if text == "*" {
		return nil
	}
	return checkCookieName(text)
}

func checkPrincipal(text string) *mistake {
	if name, cookie := strings.CutPrefix(text, "cookie:"); cookie {
		return checkCookieName(name)
	}
	if token.MatchString(text) {
		return checkField(text)
	}
	return &mistake{problem: "must be the name of a header field, or cookie:NAME"}
}

func checkClient(text string) *mistake {
	name, ok := strings.CutPrefix(text, "header:")
	if text == "address" || ok && token.MatchString(name) {
		return nil
	}
	m := &mistake{problem: "must be address or header:NAME"}
	if near := nearest(text, []string{"address"}); near != "" {
		m.suggestion = near
	} else if token.MatchString(text) && strings.Contains(text, "-") {
		m.suggestion = "header:" + text
	}
	return m
}

// checkKeyPart checks a part of the key of an affinity.
func checkKeyPart(text string) *mistake {
	kind, name, named := strings.Cut(text, ":")
	m := &mistake{problem: "must be path, client, query:NAME, header:NAME, or body: and a JSON pointer such as body:/messages"}
	switch {
	case text == "path", text == "client":
		return nil
	case named && kind == "query" && name != "" && len(name) <= 256:
		return nil
	case named && kind == "header" && token.MatchString(name):
		return nil
	case named && kind == "body":
		if checkPointer(name) == nil {
			return nil
		}
		if name != "" && checkPointer("/"+name) == nil {
			m.suggestion = "body:/" + name
		}
	case !named:
		m.suggestion = nearest(text, []string{"path", "client"})
		if m.suggestion == "" && token.MatchString(text) && strings.Contains(text, "-") {
			m.suggestion = "header:" + text
		}
	}
	return m
}
