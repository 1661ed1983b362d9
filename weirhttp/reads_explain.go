package weirhttp

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/weir-go/weir/internal/responses"
	"github.com/weir-go/weir/internal/slow"
)

// explainRead describes what becomes of r, a read with a body, and returns r with its
// body, and its key. It reports false if r is not looked up. Nothing in the sentences
// comes from the body.
func (h *Handler) explainRead(e *Explanation, rule *readRule, r *http.Request) (*http.Request, responses.Key, bool) {
	pass := func(format string, args ...any) (*http.Request, responses.Key, bool) {
		e.Answer = "pass"
		e.say(format, args...)
		return nil, responses.Key{}, false
	}
	body := aheadReader{client: new(slow.Client), mem: &memory{budget: new(budget), most: MaxReadBody + 1}, src: r.Body, n: int(rule.most), open: true}
	if r.Body == nil {
		body.src = http.NoBody
	}
	read, got, err := body.read()
	switch {
	case err != nil:
		return pass("Its body cannot be read: it would be rejected.")
	case got != gotAll || r.ContentLength > rule.most:
		return pass("It is a read, but its body is larger than %d bytes: it is forwarded alone.", rule.most)
	}
	key, proof, why, c := h.keyOf(rule, r, read)
	switch {
	case why == unsharedChange:
		return pass("It is not known to be a GraphQL query alone: it is forwarded, and invalidates what is stored for its URL.")
	case why != "":
		return pass("It is a read, but a condition of its rule does not hold: it is forwarded alone.")
	}
	held := &heldBody{bytes: read, proof: proof}
	in := r.Clone(context.WithoutCancel(r.Context()))
	own := newReadBody(read)
	own.held = held
	in.Body = own
	e.Key = keyText(key)
	how := "by its bytes"
	switch {
	case c.asJSON && len(rule.Ignore) > 0:
		how = "as JSON, without " + strings.Join(rule.Ignore, ", ")
	case c.asJSON:
		how = "as JSON"
	case c.why != "":
		how += ", because " + c.why
	}
	e.say("It is a read with a body of %d bytes, which is compared %s.", len(read), how)
	e.say("Its key consists of its URL, its method, its body, and %s.", fieldList(aboutBody(r.Header)))
	return in, key, true
}

// fieldList names fields, without their values.
func fieldList(names []string) string {
	if len(names) == 0 {
		return "no field"
	}
	return "the values of " + strings.Join(names, ", ")
}

// publicTags returns tags without those that weir adds.
func publicTags(tags []string) []string {
	own := func(tag string) bool { return strings.HasPrefix(tag, readTagMark) }
	if !slices.ContainsFunc(tags, own) {
		return tags
	}
	return slices.DeleteFunc(slices.Clone(tags), own)
}
