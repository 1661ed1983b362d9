package rfc9111_test

import (
	"fmt"
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/rfc9111"
)

const sec = time.Second

// longest is the value at which delta-seconds saturate.
const longest = (1 << 31) * sec

// says returns what q says to a cache, as text.
func says(q rfc9111.Request) string {
	return fmt.Sprint(q.NoStore, q.NoCache, q.OnlyIfCached, q.MaxAge, q.MinFresh, q.MaxStale, q.Credentials, q.Conditional, q.Range, q.Streams, q.Override)
}

func TestReadRequestDirectives(t *testing.T) {
	none := rfc9111.Request{MaxAge: rfc9111.None, MaxStale: rfc9111.None}
	with := func(change func(q *rfc9111.Request)) rfc9111.Request {
		q := none
		change(&q)
		return q
	}
	tests := []struct {
		name string
		h    http.Header
		want rfc9111.Request
	}{
		{"nothing", noFields, none},
		{"no-store", fields("Cache-Control", "No-Store"), with(func(q *rfc9111.Request) { q.NoStore = true })},
		{"no-cache", fields("Cache-Control", "foo, no-cache"), with(func(q *rfc9111.Request) { q.NoCache = true })},
		{"only-if-cached", fields("Cache-Control", "only-if-cached"), with(func(q *rfc9111.Request) { q.OnlyIfCached = true })},
		{"max-age", fields("Cache-Control", "max-age=5"), with(func(q *rfc9111.Request) { q.MaxAge = 5 * sec })},
		{"max-age=0", fields("Cache-Control", "max-age=0"), with(func(q *rfc9111.Request) { q.MaxAge, q.NoCache = 0, true })},
		{"max-age not a number", fields("Cache-Control", "max-age=x"), with(func(q *rfc9111.Request) { q.MaxAge, q.NoCache = 0, true })},
		{"max-age twice", fields("Cache-Control", "max-age=9, max-age=5"), with(func(q *rfc9111.Request) { q.MaxAge = 5 * sec })},
		{"min-fresh", fields("Cache-Control", "min-fresh=5"), with(func(q *rfc9111.Request) { q.MinFresh = 5 * sec })},
		{"min-fresh twice", fields("Cache-Control", "min-fresh=5", "Cache-Control", "min-fresh=2"), with(func(q *rfc9111.Request) { q.MinFresh = 5 * sec })},
		{"min-fresh not a number", fields("Cache-Control", "min-fresh"), with(func(q *rfc9111.Request) { q.MinFresh = longest })},
		{"max-stale", fields("Cache-Control", "max-stale"), with(func(q *rfc9111.Request) { q.MaxStale = math.MaxInt64 })},
		{"max-stale bounded", fields("Cache-Control", "max-stale, max-stale=7"), with(func(q *rfc9111.Request) { q.MaxStale = 7 * sec })},
		{"max-stale not a number", fields("Cache-Control", "max-stale=-7"), with(func(q *rfc9111.Request) { q.MaxStale = 0 })},
		{"max-stale without its number", fields("Cache-Control", "max-stale="), with(func(q *rfc9111.Request) { q.MaxStale = 0 })},
		{"an unterminated quote", fields("Cache-Control", `x="no-cache`), with(func(q *rfc9111.Request) { q.NoStore = true })},
		{"pragma", fields("Pragma", "No-Cache"), with(func(q *rfc9111.Request) { q.NoCache = true })},
		{"pragma says something else", fields("Pragma", "x=no-cache"), none},
		{"pragma beside cache-control", fields("Pragma", "no-cache", "Cache-Control", "max-stale=1"), with(func(q *rfc9111.Request) { q.MaxStale = sec })},
	}
	for _, tt := range tests {
		if got := says(rfc9111.ReadRequest(tt.h)); got != says(tt.want) {
			t.Errorf("%s: ReadRequest(%v) = %+v; want %+v", tt.name, tt.h, got, tt.want)
		}
	}
}

func TestH8_ReadRequestTellsWhatNeverLeads(t *testing.T) {
	type kind struct {
		conditional, ranged, expect, upgrade, streams bool
		credentials                                   rfc9111.Credentials
	}
	tests := []struct {
		name, value string
		want        kind
	}{
		{"If-None-Match", `"a"`, kind{conditional: true}},
		{"If-Modified-Since", httpTime(0), kind{conditional: true}},
		{"If-Match", "*", kind{conditional: true}},
		{"If-Range", `"a"`, kind{conditional: true}},
		{"If-Something-New", "1", kind{conditional: true}},
		{"Iffy", "1", kind{}},
		{"Range", "bytes=0-1", kind{ranged: true}},
		{"Expect", "100-continue", kind{expect: true}},
		{"Upgrade", "websocket", kind{upgrade: true}},
		{"Accept", "text/event-stream", kind{streams: true}},
		{"Accept", "text/html, Text/Event-Stream;q=0.9", kind{streams: true}},
		{"Accept", "text/event-streams", kind{}},
		{"Accept", "text/html, x/e", kind{}},
		{"Content-Type", "application/grpc+proto", kind{streams: true}},
		{"Content-Type", "application/json", kind{}},
		{"Authorization", "", kind{credentials: rfc9111.Authorization}},
		{"Cookie", "a=b", kind{credentials: rfc9111.Cookie}},
	}
	for _, tt := range tests {
		q := rfc9111.ReadRequest(fields(tt.name, tt.value))
		got := kind{q.Conditional, q.Range, q.Expect, q.Upgrade, q.Streams, q.Credentials}
		if got != tt.want {
			t.Errorf("ReadRequest(%s: %s) = %+v; want %+v", tt.name, tt.value, got, tt.want)
		}
	}
}

func TestPolicyReadRequestIgnoresDirectives(t *testing.T) {
	p := &rfc9111.Policy{IgnoreRequestDirectives: true}
	got := p.ReadRequest(fields("Cache-Control", "no-store, no-cache, only-if-cached, max-age=1, min-fresh=2, max-stale=3", "Cookie", "a"))
	want := rfc9111.Request{NoStore: true, OnlyIfCached: true, MaxAge: rfc9111.None, MaxStale: rfc9111.None, Credentials: rfc9111.Cookie}
	if says(got) != says(want) {
		t.Errorf("ReadRequest = %+v; want %+v", got, want)
	}
}

func TestHitPathAllocatesNothing(t *testing.T) {
	h := browser()
	h.Set("Cookie", "a=1; lang=de; b=2")
	h.Set("Cache-Control", `max-age=10, min-fresh="3", max-stale`)
	vary := []string{"Accept-Encoding", "Accept-Language", "Cookie", "User-Agent", "X-None", "cookie:lang"}
	selected := selecting(vary, h)
	r := read(origin, noFields, 200, fields("Cache-Control", "max-age=60"))
	got := testing.AllocsPerRun(100, func() {
		q := rfc9111.ReadRequest(h)
		if !matches(vary, selected, h) || !r.At(t0.Add(sec), q).Fresh {
			t.Fatal("no hit")
		}
	})
	if got != 0 {
		t.Errorf("a hit makes %v allocations; want 0", got)
	}
}
