package show

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weir-go/weir/console"
	"github.com/weir-go/weir/weirhttp"
)

// When the requests that share nothing are worth a note.
const (
	fewestAlone  = 100 // requests
	leastAlone   = 0.1 // of all requests of the route
	mostNames    = 3   // in a sentence
	fewestPairs  = 20  // of the same response, before unkeyed_headers is proposed
	othersSuffix = " …"
)

// A remedy says why requests share nothing, as the rest of "they share no response because …", and
// what changes that: a line of the configuration, or of the service. This table is the only place
// for these sentences: console, weir top and programs receive them.
type remedy struct {
	because, next string
	advise        bool // worth a note: the configuration or the service can change it
}

var remedies = map[string]remedy{
	"cookie": {"they have a Cookie, and the response is not marked as the same for all clients",
		`If responses do not depend on cookies: cache: {ignore_cookies: ["*"]}. If they depend on one, such as a currency: cache: {vary_cookies: [NAME], ignore_cookies: ["*"]}. Pages of one user must stay apart.`, true},
	"authorization": {"they have Authorization, and the response is not marked as the same for all clients",
		"If all users get the same, the service marks it with Cache-Control: public or s-maxage. To share among requests of one user: cache: {vary: [Authorization]}.", true},
	"credentials": {"they have Authorization or a Cookie, and what is stored is not for requests with them",
		`If responses do not depend on cookies: cache: {ignore_cookies: ["*"]}. With Authorization, the service marks what all users get with Cache-Control: public or s-maxage.`, true},
	"no-freshness": {"neither the response nor the route states for how long it may be stored",
		"State it: cache: {ttl: 10s} for the route, or Cache-Control: max-age of the service.", true},
	"set-cookie": {"the response sets a cookie, which is for one client",
		"The service should set its cookie only where it is needed, such as at the login. It is never shared.", true},
	"vary":             {"the response has Vary: *, or a Vary that cannot be read", "Only the service can change that: Vary should name the fields that select the response.", true},
	"private":          {"the response has Cache-Control: private", "Only the service can change that.", true},
	"no-store":         {"the response has Cache-Control: no-store", "Only the service can change that.", true},
	"no-cache":         {"the response has Cache-Control: no-cache, and no ETag or Last-Modified", "Only the service can change that: with an ETag, unchanged responses are not transferred again.", true},
	"stale":            {"the response was stale on arrival", "Compare Age, Date and max-age of the service: a cache before it may have kept the response too long.", true},
	"event-stream":     {"they ask for an event stream", "Requests with the same response can share a stream: events: {share: true}.", false},
	"method":           {"their method is not GET or HEAD", "If some of them only read: reads: [{methods: [POST], types: [application/json]}].", false},
	"override":         {"they have a field that can override the URL or the method", "If the service ignores such fields: cache: {override_headers: []}.", true},
	"request":          {"the client does not accept a stored response (no-cache or max-age=0)", "", false},
	"request-no-store": {"the client sends no-store", "", false},
	"tags":             {"the response has too many tags, or one that is too long", "Let the service send fewer or shorter tags.", true},
	"field":            {"the response has a field name that is not valid", "Only the service can change that.", true},
	"status":           {"the status of the response forbids it", "", false},
	"upgrade":          {"they switch to another protocol", "", false},
	"body":             {"they are GETs with a body", "If some of them only read: reads: [{methods: [GET]}].", false},
	"body-condition":   {"they read with a body, and have a condition or a range", "", false},
	"content-types":    {"they have more than one Content-Type", "", false},
	"expect":           {"they have Expect", "", false},
	"origin-condition": {"they have a condition that only the service can evaluate", "", false},
	"other-form":       {"they request another form of the response", "", false},
	"resume":           {"they resume an event stream", "", false},
	"trailers":         {"they have trailers", "", false},
}

// alone returns why requests of a route share nothing, the most frequent reason first.
func alone(st weirhttp.Stats, why weirhttp.AloneStats) []console.Alone {
	var all []console.Alone
	for reason, n := range why.Reasons {
		if n == 0 {
			continue
		}
		r, ok := remedies[reason]
		if reason == "apart" {
			r, ok = apart(why), true
		}
		if !ok {
			r.because = "of " + reason + ", as Cache-Status calls it"
		}
		all = append(all, console.Alone{
			Reason: reason, Count: n, Next: r.next,
			Text:   fmt.Sprintf("%d of %d requests share no response, because %s.", n, st.Requests, r.because),
			Advise: r.advise && n >= fewestAlone && float64(n) >= leastAlone*float64(st.Requests),
		})
	}
	slices.SortFunc(all, func(a, b console.Alone) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Reason, b.Reason))
	})
	return all
}

// apart is the remedy for requests that differ in fields, which it names.
func apart(why weirhttp.AloneStats) remedy {
	names := slices.SortedFunc(maps.Keys(why.Fields), func(a, b string) int {
		return cmp.Or(cmp.Compare(why.Fields[b], why.Fields[a]), strings.Compare(a, b))
	})
	names = slices.DeleteFunc(names, func(name string) bool { return name == weirhttp.OtherFields })
	if len(names) == 0 {
		return remedy{"their clients or their preferences differ", "Look at one of them with /explain on the admin listener.", true}
	}
	shown := strings.Join(names[:min(len(names), mostNames)], ", ")
	if len(names) > mostNames {
		shown += othersSuffix
	}
	next := fmt.Sprintf("If a field selects the response: cache: {vary: [%s]}.", names[0])
	for _, name := range names {
		if p := why.Pairs[name]; p.Same >= fewestPairs && p.Differed == 0 {
			return remedy{"they differ in fields: " + shown, next + fmt.Sprintf(" %d pairs of requests that differ in %s alone got the same response: cache: {unkeyed_headers: [%s]} lets them share.", p.Same, name, name), true}
		}
	}
	return remedy{"they differ in fields: " + shown, next + ` If none does, cache: {ignore_headers: ["*"]} removes them before the request is forwarded; observe mode finds out whether one matters.`, true}
}

// observed returns what observe mode has found out.
func observed(st weirhttp.Stats, why []console.Alone) *console.Observed {
	o := st.Observed
	out := &console.Observed{
		Hits: o.Hits, Joined: o.Joined, Compared: o.Compared, Differed: o.Differed, Queued: o.Queued, Refused: o.Refused, RefusedClient: o.RefusedClient, RefusedBudget: o.RefusedBudget,
	}
	if st.Requests == 0 {
		out.Text = "observe mode: no requests yet."
		return out
	}
	saved := o.Hits + o.Joined
	out.Text = fmt.Sprintf("observe mode: of %d requests, %d (%.0f %%) would need no upstream call, and %d would be refused.", st.Requests, saved, 100*float64(saved)/float64(st.Requests), o.Refused+o.RefusedClient+o.RefusedBudget)
	switch {
	case o.Differed > 0:
		out.Text += fmt.Sprintf(" %d of %d compared responses differed from the one that would have been shared.", o.Differed, o.Compared)
		out.Next = "Keep observing: the log has each response that differs. Name what selects the response, with cache: {vary: [NAME]}."
	case saved == 0 && len(why) > 0:
		out.Next = cmp.Or(why[0].Next, "Nothing can be saved: "+why[0].Text)
	case o.Compared > 0:
		out.Text += fmt.Sprintf(" None of %d compared responses differed.", o.Compared)
		out.Next = "When these are enough for you, remove observe: true from the route."
	}
	return out
}
