package judge

import (
	"math/rand/v2"
	"net/http"
	"strings"
)

// A JobRoute is what the operator says of jobs over HTTP.
type JobRoute struct {
	Principal      string // the field that distinguishes clients
	ShareAnonymous bool   // clients without credentials share
}

// JobPrincipals are the values of Principal.
var JobPrincipals = []string{"Authorization", "X-Scope-Orgid"}

// DrawJobs makes a route of jobs, clients, and requests of these for one URL, from a seed.
func DrawJobs(seed uint64) (JobRoute, []Client, []Request) {
	d := drawer{Rand: rand.New(rand.NewPCG(seed, 91))}
	h := History{Way: Read}
	if d.in(50) {
		h.Way = Store
	}
	if d.in(30) {
		p := pick(d, pools...)
		d.focus = p.draw(d).Name
	}
	base := d.request(h)
	if d.in(70) {
		base.Fields = setField(base.Fields, field("Authorization", "Bearer alice"))
	}
	requests := []Request{base}
	for range 1 + d.IntN(4) {
		r := d.another(h, base)
		r.Target = base.Target
		requests = append(requests, r)
	}
	return JobRoute{Principal: pick(d, JobPrincipals...), ShareAnonymous: d.in(50)}, d.clients(), requests
}

// SameJob says whether two requests may be one job, and why not. There is no response yet,
// so everything counts that the handler of the job sees. It does not see certificates; the
// address is the operator's word for anonymous clients, and others are who their credential
// says. Each undeclared POST is a separate job, unless it has an Idempotency-Key.
func SameJob(route JobRoute, declared bool, a, b Request) (verdict Verdict, reason string) {
	x, y := a.Header(), b.Header()
	key := strings.Join(x["Idempotency-Key"], "")
	keyed := key != "" && key == strings.Join(y["Idempotency-Key"], "") && len(x["Idempotency-Key"])+len(y["Idempotency-Key"]) == 2
	anonymous := strings.TrimSpace(strings.Join(x[route.Principal], "")) == ""
	credentials := len(x["Authorization"])+len(y["Authorization"])+len(x["Cookie"])+len(y["Cookie"]) > 0
	switch {
	case a.Method != b.Method:
		return MustNot, "another method"
	case a.Target != b.Target:
		return MustNot, "another URL"
	case a.Body != b.Body:
		return MustNot, "another body"
	case strings.Join(x[route.Principal], ",") != strings.Join(y[route.Principal], ","):
		return MustNot, "another client"
	case (x["Idempotency-Key"] != nil || y["Idempotency-Key"] != nil) && !keyed:
		return MustNot, "Idempotency-Key differs"
	case a.Method == http.MethodPost && !declared && !keyed:
		return MustNot, "a POST that is not declared"
	case anonymous && !keyed && (!route.ShareAnonymous || credentials):
		return MustNot, "anonymous clients"
	}
	may := anonymous && keyed || a.Method == http.MethodHead
	for _, name := range fieldNames(x, y) {
		kind := KindOf(name, append(append([]string(nil), x[name]...), y[name]...))
		same := strings.Join(x[name], "\n") == strings.Join(y[name], "\n") && (x[name] == nil) == (y[name] == nil)
		switch {
		case kind == KindCondition && !same && a.Method == http.MethodPost && strings.HasPrefix(name, "If-"):
			may = true // a condition of an unsafe request is part of it
		case kind == KindCondition && name == "Cache-Control", name == "Pragma":
			may = may || x[name] != nil || y[name] != nil // no-cache asks for another run
		case kind.never() || kind == KindRepeat || name == "Prefer" || same:
		case kind == KindCredential && keyed && !anonymous:
			may = true // the client is known; its token and its cookies may change
		case kind == KindAddress || kind == KindBody || kind == KindPage:
			may = true
		case differ(name, kind, x, y):
			return MustNot, "a field of kind " + string(kind) + " differs: " + name
		default:
			may = may || kind != KindBaggage
		}
	}
	if may {
		return May, ""
	}
	return Must, ""
}
