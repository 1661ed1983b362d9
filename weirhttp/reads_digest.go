package weirhttp

import (
	"encoding/hex"
	"net/http"

	"github.com/weir-go/weir/option"
)

// Reads are [ReadRule]s in use, for code in front of a Handler that has to know which
// requests are the same read, such as a queue of jobs. It is safe for concurrent use.
type Reads struct{ rules readRules }

// NewReads returns the Reads of rules. The error joins an *OptionError for each fault.
func NewReads(rules []ReadRule) (*Reads, error) {
	f := option.Faults{Package: "weirhttp"}
	o := Options{Reads: rules}
	o.checkReads(f.Check)
	if err := f.Err(); err != nil {
		return nil, err
	}
	return &Reads{newReadRules(rules)}, nil
}

// Bound returns the size up to which the body of r is compared, and whether r may be a
// read: its method and its fields allow it.
func (a *Reads) Bound(r *http.Request) (bytes int64, ok bool) {
	rule := a.rules.of(r)
	if rule == nil {
		return 0, false
	}
	return rule.most, true
}

// Digest returns a text that r, with that body, has in common with the requests that
// are the same read, if their URLs and their other fields are equal as well. It reports
// false if r is not a read, or not shared.
func (a *Reads) Digest(r *http.Request, body []byte) (digest string, ok bool) {
	rule := a.rules.of(r)
	if rule == nil || int64(len(body)) > rule.most {
		return "", false
	}
	c := rule.compare(r.Header, body)
	if rule.unshared(c, r.URL.RawQuery) != "" {
		return "", false
	}
	half, proof := rule.digest(r, c)
	return hex.EncodeToString([]byte(half + proof)), true
}
