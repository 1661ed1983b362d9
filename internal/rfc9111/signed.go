package rfc9111

import (
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
	for _, line := range q.Fields["Authorization"] {
		scheme, rest, more := strings.Cut(trim(line), " ")
		switch scheme = strings.ToLower(scheme); {
		case !more, slices.Contains(unsigned, scheme): // without a scheme it is a key
		case strings.HasPrefix(scheme, "aws4-"):
			if !lacks(signedHeaders(rest), ";", names) {
				return false
			}
		default:
			return false
		}
	}
	for name, lines := range q.Fields {
		switch {
		case len(lines) == 0 || name == "Authorization":
		case name == "Signature-Input":
			if slices.ContainsFunc(lines, func(line string) bool { return coversAny(line, names) }) {
				return false
			}
		case name == "Signature" && len(q.Fields["Signature-Input"]) > 0:
		case strings.Contains(strings.ToLower(name), "signature"):
			return false
		}
	}
	if i := strings.Index(strings.ToLower(rawQuery), "x-amz-signedheaders="); i >= 0 {
		value, _, _ := strings.Cut(rawQuery[i+len("x-amz-signedheaders="):], "&")
		value, err := url.QueryUnescape(value)
		return err == nil && lacks(value, ";", names)
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
