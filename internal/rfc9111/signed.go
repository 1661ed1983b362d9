package rfc9111

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// unsigned are the schemes of Authorization that cover no header field.
var unsigned = []string{"basic", "bearer", "token", "bot", "apikey", "api-key", "key", "digest", "dpop", "negotiate", "ntlm"}

// MayChange reports whether the fields with these names, which are canonical, can be
// changed, added or removed before q is forwarded: no signature of the request may cover
// one of them. AWS Signature Version 4 names what it covers (SignedHeaders, in
// Authorization or in the query), and so does RFC 9421 (Signature-Input). An unknown
// scheme, and a field whose name has "signature" in it, may cover each field that the
// request has, and the absence of others.
func (q *Request) MayChange(rawQuery string, names ...string) bool {
	return MayChange(q.Fields, rawQuery, names...)
}

// MayChange is [Request.MayChange] of a request with these fields.
func MayChange(fields http.Header, rawQuery string, names ...string) bool {
	if !mayChange(fields, names, func(scheme, parameters string) bool {
		return slices.Contains(unsigned, scheme) || strings.HasPrefix(scheme, "aws4-") && lacks(signedHeaders(parameters), ";", names)
	}) {
		return false
	}
	if i := strings.Index(strings.ToLower(rawQuery), "x-amz-signedheaders="); i >= 0 {
		value, _, _ := strings.Cut(rawQuery[i+len("x-amz-signedheaders="):], "&")
		value, err := url.QueryUnescape(value)
		return err == nil && lacks(value, ";", names)
	}
	return true
}

// MayChangeQuery reports whether the query of a request with these fields can be changed
// before it is forwarded: no signature may cover it. One in the query does, as in the
// signed URLs of object stores and CDNs, and so do Digest (RFC 7616) and the schemes that
// AWS Signature Version 4 has.
func MayChangeQuery(fields http.Header, rawQuery string) bool {
	if !mayChange(fields, []string{"@query", "@query-param", "@target-uri", "@request-target"}, func(scheme, _ string) bool {
		return scheme != "digest" && slices.Contains(unsigned, scheme)
	}) {
		return false
	}
	for parameter := range strings.SplitSeq(rawQuery, "&") {
		name, _, _ := strings.Cut(parameter, "=")
		if plain, err := url.QueryUnescape(name); err == nil {
			name = plain
		}
		if signs(name) || strings.EqualFold(name, "sig") {
			return false
		}
	}
	return true
}

// signs reports whether the name of a field or a parameter says that it is a signature.
func signs(name string) bool { return strings.Contains(strings.ToLower(name), "signature") }

// mayChange reports whether no signature in the fields may cover one of the components
// with these names, in terms of RFC 9421. free says whether a scheme of Authorization,
// in lower case and with its parameters, covers none of them.
func mayChange(fields http.Header, names []string, free func(scheme, parameters string) bool) bool {
	for _, line := range fields["Authorization"] {
		scheme, rest, more := strings.Cut(trim(line), " ")
		if more && !free(strings.ToLower(scheme), rest) { // without a scheme it is a key
			return false
		}
	}
	for name, lines := range fields {
		switch {
		case len(lines) == 0 || name == "Authorization":
		case name == "Signature-Input":
			if slices.ContainsFunc(lines, func(line string) bool { return coversAny(line, names) }) {
				return false
			}
		case name == "Signature" && len(fields["Signature-Input"]) > 0:
		case signs(name):
			return false
		}
	}
	return true
}

// signedHeaders returns the value of SignedHeaders among the parameters of AWS Signature
// Version 4.
func signedHeaders(parameters string) string {
	_, after, _ := strings.Cut(parameters, "SignedHeaders=")
	value, _, _ := strings.Cut(after, ",")
	return trim(value)
}

// lacks reports whether a list of what is signed has none of names.
func lacks(signed, separator string, names []string) bool {
	for one := range strings.SplitSeq(signed, separator) {
		if slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, trim(one)) }) {
			return false
		}
	}
	return true
}

// coversAny reports whether a line of Signature-Input has one of the names as a covered
// component.
func coversAny(line string, names []string) bool {
	line = strings.ToLower(line)
	return slices.ContainsFunc(names, func(name string) bool { return strings.Contains(line, `"`+strings.ToLower(name)+`"`) })
}
