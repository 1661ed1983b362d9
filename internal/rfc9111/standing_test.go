package rfc9111_test

import (
	"math"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/rfc9111"
)

func TestH11_Windows(t *testing.T) {
	route := &rfc9111.Policy{StaleWhileRevalidate: 10 * sec, StaleIfError: 20 * sec, StaleOffline: 30 * sec}
	offline := &rfc9111.Policy{StaleOffline: 30 * sec}
	type windows struct {
		swr, sie, offline time.Duration
		must              bool
	}
	tests := []struct {
		p            *rfc9111.Policy
		cacheControl string
		want         windows
	}{
		{origin, "max-age=1", windows{}},
		{origin, "max-age=1, stale-while-revalidate=5, stale-if-error=6", windows{swr: 5 * sec, sie: 6 * sec}},
		{origin, "max-age=1, stale-if-error=6, stale-if-error=4", windows{sie: 4 * sec}},
		{origin, "max-age=1, stale-if-error=x", windows{}},
		{route, "max-age=1", windows{10 * sec, 20 * sec, 30 * sec, false}},
		{route, "max-age=1, stale-while-revalidate=5", windows{5 * sec, 20 * sec, 30 * sec, false}},
		{route, "max-age=1, stale-if-error=0", windows{10 * sec, 0, 30 * sec, false}},
		// Directives that demand revalidation win over all windows.
		{route, "max-age=1, must-revalidate, stale-if-error=5", windows{must: true}},
		{route, "max-age=1, proxy-revalidate, stale-if-error=5", windows{must: true}},
		{route, "max-age=1, no-cache, stale-if-error=5", windows{must: true}},
		// The revalidation that s-maxage implies gives way to a stated window.
		{origin, "s-maxage=1", windows{must: true}},
		{offline, "s-maxage=1", windows{must: true}},
		{offline, "s-maxage=1, stale-if-error=0", windows{must: true}},
		{offline, "s-maxage=1, stale-if-error=5", windows{sie: 5 * sec, offline: 30 * sec}},
		{route, "s-maxage=1", windows{10 * sec, 20 * sec, 30 * sec, false}},
		{route, "s-maxage=1, must-revalidate", windows{must: true}},
		{&rfc9111.Policy{StaleIfError: -1, StaleOffline: math.MaxInt64}, "max-age=1", windows{offline: longest}},
	}
	for _, tt := range tests {
		r := read(tt.p, noFields, 200, fields("Cache-Control", tt.cacheControl))
		got := windows{r.StaleWhileRevalidate, r.StaleIfError, r.StaleOffline, r.MustRevalidate}
		if got != tt.want {
			t.Errorf("windows(%q) = %+v; want %+v", tt.cacheControl, got, tt.want)
		}
	}
}

func TestH11_StandingGoesDownTheLadder(t *testing.T) {
	p := &rfc9111.Policy{StaleOffline: 30 * sec}
	r := read(p, noFields, 200, fields("Cache-Control", "max-age=60, stale-while-revalidate=10, stale-if-error=20", "Age", "5"))
	type uses struct{ fresh, swr, ifError, offline bool }
	tests := []struct {
		after time.Duration
		ttl   time.Duration
		want  uses
	}{
		{-time.Hour, 55 * sec, uses{fresh: true, ifError: true, offline: true}}, // a clock that was set back
		{0, 55 * sec, uses{fresh: true, ifError: true, offline: true}},
		{55*sec - 1, 1, uses{fresh: true, ifError: true, offline: true}},
		{55 * sec, 0, uses{swr: true, ifError: true, offline: true}},
		{65 * sec, -10 * sec, uses{swr: true, ifError: true, offline: true}},
		{65*sec + 1, -10*sec - 1, uses{ifError: true, offline: true}},
		{75 * sec, -20 * sec, uses{ifError: true, offline: true}},
		{75*sec + 1, -20*sec - 1, uses{offline: true}},
		{85*sec + 1, -30*sec - 1, uses{}},
		{math.MaxInt64, 60*sec - longest, uses{}},
	}
	for _, tt := range tests {
		s := r.At(t0.Add(tt.after), plain)
		got := uses{s.Fresh, s.SWR, s.IfError, s.Offline}
		if got != tt.want || s.TTL != tt.ttl || s.Age != 60*sec-tt.ttl {
			t.Errorf("At(+%v) = %+v; want %+v, TTL %v", tt.after, s, tt.want, tt.ttl)
		}
	}
}

func TestH10_RequestDirectivesAtHit(t *testing.T) {
	const fresh, stale = 10 * sec, 65 * sec // of a response of 60 s
	tests := []struct {
		request, response string
		after             time.Duration
		fresh, swr        bool
	}{
		{"", "", fresh, true, false},
		{"no-cache", "", fresh, false, false},
		{"max-age=0", "", fresh, false, false},
		{"max-age=9", "", fresh, false, false},
		{"max-age=10", "", fresh, true, false},
		{"min-fresh=51", "", fresh, false, false},
		{"min-fresh=50", "", fresh, true, false},
		{"", "", stale, false, true},
		{"no-cache", "", stale, false, false},
		{"max-age=64", "", stale, false, false},
		{"min-fresh=1", "", stale, false, false},
		{"max-stale", "", stale, true, true},
		{"max-stale=5", "", stale, true, true},
		{"max-stale=4", "", stale, false, true},
		{"max-stale=5, max-age=64", "", stale, false, false},
		{"max-stale=5, max-age=65", "", stale, true, true},
		{"max-stale=5, no-cache", "", stale, false, false},
		{"max-stale=5, min-fresh=1", "", stale, false, false},
		{"max-stale", "must-revalidate", stale, false, false},
		{"max-stale", "proxy-revalidate", stale, false, false},
	}
	for _, tt := range tests {
		r := read(origin, noFields, 200, fields("Cache-Control", "max-age=60, stale-while-revalidate=30, "+tt.response))
		q := rfc9111.ReadRequest(fields("Cache-Control", tt.request))
		s := r.At(t0.Add(tt.after), q)
		if s.Fresh != tt.fresh || s.SWR != tt.swr {
			t.Errorf("At(+%v, %q) of %q = %+v; want fresh %v, swr %v", tt.after, tt.request, tt.response, s, tt.fresh, tt.swr)
		}
	}
	r := read(origin, noFields, 200, fields("Cache-Control", "s-maxage=60", "Etag", `"a"`))
	if s := r.At(t0.Add(stale), rfc9111.ReadRequest(fields("Cache-Control", "max-stale"))); s.Fresh {
		t.Errorf("At(max-stale) of s-maxage = %+v; want it not fresh", s)
	}
}

func TestH11_ErrorsOutrankTheRequest(t *testing.T) {
	p := &rfc9111.Policy{StaleOffline: sec}
	r := read(p, noFields, 200, fields("Cache-Control", "max-age=60, stale-if-error=30"))
	q := rfc9111.ReadRequest(fields("Cache-Control", "no-cache"))
	for _, after := range []time.Duration{0, 60 * sec} {
		if s := r.At(t0.Add(after), q); s.Fresh || !s.IfError || !s.Offline {
			t.Errorf("At(+%v, no-cache) = %+v; want it used on errors only", after, s)
		}
	}
}
