package weirhttp

import (
	"cmp"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/weir-go/weir/internal/jcs"
	"github.com/weir-go/weir/internal/rfc9111"
	"github.com/weir-go/weir/option"
)

// A ReadRule declares requests with a body that only read (H32). They are looked up,
// shared and stored like a GET, under a key that contains their method, the fields
// about their body, and a digest of the body. The first rule that matches applies.
//
// QUERY (RFC 10008) is a read by definition: a QUERY that no rule matches is compared
// by bytes. Any other method is a read only if a rule matches. A read invalidates
// nothing.
//
// A read is forwarded as it came, with the bytes of the client whose request makes the
// call. It bypasses the cache if it has Range, If-…, Expect, trailers, or more than one
// Content-Type.
type ReadRule struct {
	// Methods that match, such as "POST". Required. HEAD, OPTIONS, TRACE, CONNECT,
	// PUT, PATCH and DELETE are not allowed.
	Methods []string
	// Types are the media types that match, without parameters, such as
	// "application/json". Empty means every type, and is for QUERY alone.
	Types []string
	// Compare says when two bodies are the same. The zero value is CompareBytes.
	Compare Compare
	// Ignore names the JSON fields, as JSON pointers (RFC 6901), in which bodies may
	// differ and still be the same: the response to one is served for the other. They
	// are forwarded nevertheless. It needs CompareJSON, and is safe only for fields
	// that do not change the response. A body without a canonical form is compared by
	// bytes, with all its fields.
	Ignore []string
	// Only are the conditions for sharing; all must hold. A read for which one does
	// not is forwarded alone. It needs CompareJSON.
	Only []ReadCondition
	// GraphQL means that a body is a GraphQL request in JSON. It is a read if its
	// document has queries alone. A request with a mutation or a subscription, with
	// several requests in an array, or without a document, is forwarded as if there
	// were no rule. It needs CompareJSON.
	GraphQL bool
	// ErrorFields are JSON pointers into the response. A response in JSON that has one of
	// these fields, and not as null, false, an empty array or an empty object, reports an
	// error: requests that wait for it share it, and it is not stored. Nor is one in which
	// that cannot be seen, because it is not valid or has another coding than gzip. Nil
	// means /errors with GraphQL and none without it; empty, and not nil, means none.
	ErrorFields []string
	// MaxBody is the size up to which a body is read and compared. A larger one is
	// forwarded as it arrives, and not shared. 0 means 64 KiB, at most 16 MiB. Bodies
	// that are in use count towards Clients.ReadAheadMemory.
	MaxBody int64
}

// A ReadCondition is a condition about one field of a JSON body.
type ReadCondition struct {
	// Field is a JSON pointer.
	Field string
	// Values are the values for which the condition holds, as JSON: `0`, `"low"`.
	Values []string
	// Absent means that it also holds without the field.
	Absent bool
}

// A Compare says when two bodies are the same.
type Compare uint8

// The ways to compare bodies.
const (
	// CompareBytes: if they have the same bytes.
	CompareBytes Compare = iota
	// CompareJSON: if they have the same canonical form (RFC 8785). White space, the
	// order of members, escapes and the way a number is written do not count. Bodies
	// that programs may read differently have no such form: with duplicate names, half
	// surrogates, numbers that a double cannot hold exactly, or with a
	// Content-Encoding. These are compared by bytes.
	CompareJSON
)

// String returns "bytes" or "json".
func (c Compare) String() string {
	if c == CompareJSON {
		return "json"
	}
	return "bytes"
}

// Defaults and bounds of a ReadRule.
const (
	DefaultReadBody   = 64 << 10     // ReadRule.MaxBody, in bytes
	MaxReadBody       = maxReadAhead // ReadRule.MaxBody, in bytes
	maxReadRules      = 100
	maxReadConditions = 32
	maxReadPointers   = 100
)

// DefaultIdentity returns the fields besides Authorization and Cookie that are known to
// carry a credential or a user. Where the origin states a lifetime without public or
// s-maxage, requests with different values of one have different responses. If the origin
// states none, requests that differ in any field have different responses (H2), and the
// list has no effect.
func DefaultIdentity() []string { return rfc9111.Identity() }

// forbiddenReads are the methods that no rule can declare a read.
var forbiddenReads = []string{
	http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodConnect,
	http.MethodPut, http.MethodPatch, http.MethodDelete,
}

// methodQuery is the method of RFC 10008.
const methodQuery = "QUERY"

// Validate returns all faults of r at once, joined by errors.Join, each an
// *OptionError; or nil.
func (r ReadRule) Validate() error {
	f := option.Faults{Package: "weirhttp"}
	r.check(f.Check, "ReadRule.")
	return f.Err()
}

func (r ReadRule) check(check func(ok bool, field string, value any, bound string) bool, at string) {
	check(len(r.Methods) > 0, at+"Methods", r.Methods, "at least one method")
	for _, m := range r.Methods {
		check(isToken(m) && m == strings.ToUpper(m) && !slices.Contains(forbiddenReads, m), at+"Methods", m,
			"a method in capitals that can be a read: POST, QUERY, GET, REPORT, SEARCH, …")
	}
	onlyQuery := !slices.ContainsFunc(r.Methods, func(m string) bool { return m != methodQuery })
	check(len(r.Types) > 0 || onlyQuery, at+"Types", r.Types, "at least one media type, unless QUERY is the only method")
	for _, t := range r.Types {
		check(isMediaType(t), at+"Types", t, "a media type in lower case without parameters: application/json")
	}
	json := r.Compare == CompareJSON
	check(r.Compare <= CompareJSON, at+"Compare", r.Compare, "CompareBytes or CompareJSON")
	check(json || len(r.Ignore) == 0, at+"Ignore", r.Ignore, "with CompareJSON only")
	check(json || len(r.Only) == 0, at+"Only", r.Only, "with CompareJSON only")
	check(json || !r.GraphQL, at+"GraphQL", r.GraphQL, "with CompareJSON only")
	check(len(r.Ignore) <= maxReadPointers, at+"Ignore", len(r.Ignore), "at most 100 fields")
	check(len(r.Only) <= maxReadConditions, at+"Only", len(r.Only), "at most 32 conditions")
	for _, p := range r.Ignore {
		tokens, err := jcs.Tokens(p)
		check(err == nil && p != "", at+"Ignore", p, "a JSON pointer: /user")
		check(!r.GraphQL || len(tokens) == 0 || tokens[0] != graphQLField, at+"Ignore", p, "not the document of a GraphQL request")
	}
	check(len(r.ErrorFields) <= maxReadPointers, at+"ErrorFields", len(r.ErrorFields), "at most 100 fields")
	for _, p := range r.ErrorFields {
		_, err := jcs.Tokens(p)
		check(err == nil && p != "", at+"ErrorFields", p, "a JSON pointer: /errors")
	}
	seen := map[string]bool{}
	for i, c := range r.Only {
		at := fmt.Sprintf("%sOnly[%d].", at, i)
		_, err := jcs.Tokens(c.Field)
		check(err == nil, at+"Field", c.Field, "a JSON pointer: /temperature")
		check(!seen[c.Field], at+"Field", c.Field, "a field of one condition")
		seen[c.Field] = true
		check(len(c.Values) > 0 || c.Absent, at+"Values", c.Values, "at least one value, or Absent")
		for _, v := range c.Values {
			_, err := jcs.Canonical([]byte(v), nil)
			check(err == nil, at+"Values", v, `a JSON value: 0, true, "low"`)
		}
	}
	check(r.MaxBody >= 0 && r.MaxBody <= MaxReadBody, at+"MaxBody", r.MaxBody, "from 0 to 16 MiB (16777216)")
}

// checkReads checks Options.Reads.
func (o *Options) checkReads(check func(ok bool, field string, value any, bound string) bool) {
	check(len(o.Reads) <= maxReadRules, "Reads", len(o.Reads), "at most 100 rules")
	for i, r := range o.Reads {
		r.check(check, fmt.Sprintf("Reads[%d].", i))
	}
}

func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}

func isMediaType(s string) bool {
	parsed, params, err := mime.ParseMediaType(s)
	return err == nil && parsed == s && len(params) == 0 && strings.Count(s, "/") == 1
}

// graphQLField is the field of a GraphQL request that has its document.
const graphQLField = "query"

// A readRule is a ReadRule that is prepared for use.
type readRule struct {
	ReadRule
	most   int64
	plan   *jcs.Plan  // nil for CompareBytes
	values [][]string // of each condition, in canonical form
	errors [][]string // the tokens of ErrorFields
}

// readRules are the rules of a Handler.
type readRules struct {
	rules []*readRule
	query *readRule // for a QUERY that no rule matches
}

// newReadRules prepares rules, which are valid.
func newReadRules(rules []ReadRule) readRules {
	all := readRules{query: newReadRule(ReadRule{Methods: []string{methodQuery}})}
	for _, r := range rules {
		all.rules = append(all.rules, newReadRule(r))
	}
	return all
}

func newReadRule(r ReadRule) *readRule {
	own := &readRule{ReadRule: r, most: cmp.Or(r.MaxBody, DefaultReadBody)}
	fields := r.ErrorFields
	if fields == nil && r.GraphQL {
		fields = []string{"/errors"}
	}
	for _, p := range fields {
		tokens, err := jcs.Tokens(p)
		if err != nil {
			panic("weirhttp: a ReadRule that was not validated")
		}
		own.errors = append(own.errors, tokens)
	}
	if r.Compare != CompareJSON {
		return own
	}
	var want []string
	for _, c := range r.Only {
		want = append(want, c.Field)
		var values []string
		for _, v := range c.Values {
			form, err := jcs.Canonical([]byte(v), nil)
			if err != nil {
				panic("weirhttp: a ReadRule that was not validated")
			}
			values = append(values, string(form.Text))
		}
		own.values = append(own.values, values)
	}
	if i := slices.Index(want, "/"+graphQLField); r.GraphQL && i < 0 {
		want = append(want, "/"+graphQLField)
	}
	plan, err := jcs.NewPlan(r.Ignore, want)
	if err != nil {
		panic("weirhttp: a ReadRule that was not validated")
	}
	own.plan = plan
	return own
}

// of returns the rule that applies to r, or nil if r is not a read with a body.
func (a *readRules) of(r *http.Request) *readRule {
	if len(a.rules) == 0 && r.Method != methodQuery {
		return nil
	}
	if r.Method == http.MethodGet && r.ContentLength == 0 || r.Method == http.MethodHead {
		return nil
	}
	kind := mediaType(r.Header)
	for _, rule := range a.rules {
		if slices.Contains(rule.Methods, r.Method) && (len(rule.Types) == 0 || slices.Contains(rule.Types, kind)) {
			return rule
		}
	}
	if r.Method == methodQuery {
		return a.query
	}
	return nil
}

// mediaType returns the media type of a body in lower case without its parameters, ""
// if there is none or several.
func mediaType(h http.Header) string {
	lines := h["Content-Type"]
	if len(lines) != 1 {
		return ""
	}
	kind, _, _ := strings.Cut(lines[0], ";")
	return strings.ToLower(strings.Trim(kind, " \t"))
}
