package judge_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/judge"
)

// fields reads "Name: value; Name: value".
func fields(s string) (all []judge.Field) {
	for _, f := range strings.Split(s, "; ") {
		if name, value, ok := strings.Cut(f, ": "); ok {
			all = append(all, judge.Field{Name: name, Lines: []string{value}})
		}
	}
	return all
}

// The rows say decision 0090 once more, by examples: one call, and then, or at the same
// moment, the request of another client.
func TestVerdicts(t *testing.T) {
	ttl := judge.Route{TTL: time.Minute}
	for _, tt := range []struct {
		name   string
		way    judge.Way
		route  judge.Route
		origin judge.Origin
		first  string
		second string
		other  string // address of the second client
		atOnce bool
		want   judge.Verdict
	}{
		{name: "a lifetime of the route, equal", route: ttl, first: "X-Foo: 1", second: "X-Foo: 1", want: judge.Must},
		{name: "a lifetime of the route, an unknown field", route: ttl, first: "X-Foo: 1", second: "X-Foo: 2", want: judge.MustNot},
		{name: "absent is another value than empty", route: ttl, second: "X-Foo: ", want: judge.MustNot},
		{name: "a lifetime of the route, another address", route: ttl, other: "192.0.2.2", want: judge.Must},
		{name: "a lifetime of the route, negotiation", route: ttl, first: "Accept-Language: de", second: "Accept-Language: en", want: judge.Must},
		{name: "a lifetime of the route, traces and programs", route: ttl, first: "Traceparent: 1; User-Agent: a", second: "Traceparent: 2; Cf-Ray: 2", want: judge.Must},
		{name: "members of a tracer", route: ttl, first: "Baggage: sentry-trace_id=1", second: "Baggage: sentry-trace_id=2", want: judge.Must},
		{name: "members of no tracer", route: ttl, first: "Baggage: user=1", second: "Baggage: user=2", want: judge.MustNot},
		{name: "vary of the route", route: judge.Route{TTL: time.Minute, Vary: []string{"Accept-Language"}}, first: "Accept-Language: de", second: "Accept-Language: en", want: judge.MustNot},
		{name: "an ignored field", route: judge.Route{TTL: time.Minute, Ignore: []string{"X-Foo"}}, first: "X-Foo: 1", second: "X-Foo: 2", want: judge.Must},
		{name: "an unkeyed field", route: judge.Route{TTL: time.Minute, Unkeyed: []string{"X-*"}}, first: "X-Foo: 1", second: "X-Foo: 2", want: judge.Must},
		{name: "unkeyed never covers Origin", route: judge.Route{TTL: time.Minute, Unkeyed: []string{"*"}}, first: "Origin: https://a", second: "Origin: https://b", want: judge.MustNot},
		{name: "a coding that is not accepted", route: ttl, origin: judge.Origin{Coding: "gzip"}, second: "Accept-Encoding: identity", want: judge.MustNot},

		{name: "the origin's lifetime, an unknown field", origin: judge.Origin{CacheControl: "max-age=60"}, first: "X-Foo: 1", second: "X-Foo: 2", other: "192.0.2.2", want: judge.Must},
		{name: "the origin's lifetime, an identity", origin: judge.Origin{CacheControl: "max-age=60"}, first: "X-Api-Key: 1", second: "X-Api-Key: 2", want: judge.MustNot},
		{name: "s-maxage, an identity", origin: judge.Origin{CacheControl: "s-maxage=60"}, first: "X-Api-Key: 1", second: "X-Api-Key: 2", want: judge.Must},
		{name: "the origin's lifetime, its Vary", origin: judge.Origin{CacheControl: "max-age=60", Vary: []string{"Accept-Language"}}, first: "Accept-Language: de, en", second: "Accept-Language: en, de", want: judge.MustNot},
		{name: "the order of codings", origin: judge.Origin{CacheControl: "max-age=60", Vary: []string{"Accept-Encoding"}}, first: "Accept-Encoding: br, gzip", second: "Accept-Encoding: gzip, br", want: judge.May},
		{name: "the origin's lifetime, Authorization", origin: judge.Origin{CacheControl: "max-age=60"}, second: "Authorization: Bearer a", want: judge.MustNot},
		{name: "the origin's lifetime, a part of a page", origin: judge.Origin{CacheControl: "public, max-age=60"}, second: "Hx-Request: true", want: judge.MustNot},
		{name: "a range of another unit", origin: judge.Origin{CacheControl: "max-age=60", Rows: true}, first: "Range: rows=0-4", want: judge.MustNot},

		{name: "at once without a lifetime, equal", first: "X-Foo: 1", second: "X-Foo: 1", atOnce: true, want: judge.May},
		{name: "at once without a lifetime, another address", other: "192.0.2.2", atOnce: true, want: judge.MustNot},
		{name: "at once without a lifetime, any client", route: judge.Route{AnyClient: true}, other: "192.0.2.2", atOnce: true, want: judge.May},
		{name: "at once without a lifetime, negotiation", first: "Accept: a/b", second: "Accept: b/a", atOnce: true, want: judge.MustNot},
		{name: "at once with the origin's lifetime", origin: judge.Origin{CacheControl: "max-age=60"}, first: "X-Foo: 1", second: "X-Foo: 2", other: "192.0.2.2", atOnce: true, want: judge.Must},
		{name: "at once, a 401", origin: judge.Origin{NeedsKey: true}, atOnce: true, want: judge.MustNot},

		{name: "a read by POST is strict", way: judge.Read, origin: judge.Origin{CacheControl: "public, max-age=60"}, first: "X-Foo: 1", second: "X-Foo: 2", want: judge.MustNot},
		{name: "a private cache is strict", way: judge.Private, origin: judge.Origin{CacheControl: "public, max-age=60"}, first: "X-Foo: 1", second: "X-Foo: 2", want: judge.MustNot},
		{name: "a private cache, one user", way: judge.Private, origin: judge.Origin{CacheControl: "private, max-age=60"}, first: "Authorization: Bearer a", second: "Authorization: Bearer a", want: judge.Must},
		{name: "a private cache, two users", way: judge.Private, origin: judge.Origin{CacheControl: "private, max-age=60"}, first: "Authorization: Bearer a", second: "Authorization: Bearer b", want: judge.MustNot},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := judge.History{Way: tt.way, Route: tt.route, Origin: tt.origin, Clients: []judge.Client{{Address: "192.0.2.1"}, {Address: "192.0.2.1"}}}
			if h.Way == "" {
				h.Way = judge.Store
			}
			if tt.other != "" {
				h.Clients[1].Address = tt.other
			}
			a := judge.Request{Method: "GET", Target: "/", Fields: fields(tt.first)}
			b := judge.Request{Client: 1, Method: "GET", Target: "/", Fields: fields(tt.second)}
			if tt.way == judge.Read {
				a.Method, b.Method = "POST", "POST"
				a.Fields, b.Fields = append(a.Fields, fields("Content-Type: a/b")...), append(b.Fields, fields("Content-Type: a/b")...)
			}
			h.Steps = []judge.Step{{Requests: []judge.Request{a}}, {Requests: []judge.Request{b}}}
			if tt.atOnce {
				h.Steps = []judge.Step{{Requests: []judge.Request{a, b}}}
			}
			// The judge sees one call and one other request: the second makes no call.
			_, tally := play(t, h, openToy(func(judge.History, *entry, *visit) bool { return true }))
			if tally.Pairs() != 1 {
				_, tally = play(t, h, openToy(toyRule))
			}
			want := judge.Tally{Shared: tally.Shared}
			switch tt.want {
			case judge.Must:
				want.Must = tally.Pairs()
			case judge.MustNot:
				want.MustNot = tally.Pairs()
			case judge.May:
				want.May = tally.Pairs()
			}
			if tally != want || tally.Pairs() == 0 {
				t.Errorf("tally %+v; want that it %v share", tally, tt.want)
			}
		})
	}
}
