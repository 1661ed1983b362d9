package gateway

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/weir-go/weir/once"
	"github.com/weir-go/weir/weirhttp"
)

// An Idempotency makes calls of a route with an Idempotency-Key run at most once (H45); see
// [weirhttp.IdempotencyPolicy]. It needs Config.Claims. Keys belong to the name of the route.
type Idempotency struct {
	// TTL, Required, Unknown, MaxBody, MaxResponse, Keep: see weirhttp.IdempotencyPolicy.
	TTL                  time.Duration
	Required             bool
	Unknown              weirhttp.UnknownOutcome
	MaxBody, MaxResponse int64
	Keep                 []int
	// Principal are fields that say who the client is, instead of its credentials, each as
	// "header:NAME", in requests that come from TrustedProxies. These must have verified them.
	Principal []string
}

// policy returns the policy of i, which may be nil, with claims.
func (i *Idempotency) policy(claims *once.Claims, trusted trust) *weirhttp.IdempotencyPolicy {
	if i == nil {
		return nil
	}
	p := &weirhttp.IdempotencyPolicy{
		Claims: claims, TTL: i.TTL, Required: i.Required, Unknown: i.Unknown, MaxBody: i.MaxBody, MaxResponse: i.MaxResponse,
		Keep: i.Keep, Trusted: trusted.peer, Client: trusted.client,
	}
	for _, text := range i.Principal {
		p.Principal = append(p.Principal, strings.TrimPrefix(text, "header:"))
	}
	return p
}

// validate checks i.
func (i *Idempotency) validate(f *faults, at string, c Config) {
	if i == nil {
		return
	}
	o := weirhttp.Options{Idempotency: i.policy(once.NewClaims(nil), nil)}
	f.adopt(at[:strings.LastIndexByte(at, '.')], o.Validate())
	for n, text := range i.Principal {
		f.Check(strings.HasPrefix(text, "header:"), index(at+".Principal", n), quoted(text), "header:NAME")
	}
	f.Check(len(i.Principal) == 0 || len(c.TrustedProxies) > 0, at+".Principal", len(i.Principal), "empty without TrustedProxies: any client could set the fields")
}

// validateAgain checks what may send a call twice: the retries of u, or a Fallback by status.
func (i *Idempotency) validateAgain(f *faults, at string, u Upstream, fallback bool) {
	if i == nil || i.Unknown != weirhttp.UnknownRefuse || u.Retry.Attempts <= 1 && !fallback {
		return
	}
	safe := []string{http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, "QUERY"}
	for _, m := range u.Retry.Methods {
		f.Check(slices.Contains(safe, m), at+".Unknown", fmt.Sprint(m), "UnknownForward, because upstream "+u.Name+" allows calls with this method, which may have taken effect, to be sent again")
	}
}
