package show

import (
	"strings"
	"testing"

	"github.com/weir-go/weir/weirhttp"
)

// H22: the console and weir top say what keeps requests apart, and propose unkeyed_headers
// with evidence only.
func TestH22_WhatKeepsRequestsApart(t *testing.T) {
	for name, tt := range map[string]struct {
		apart, requests uint64
		pair            weirhttp.PairStats
		has, hasNot     string
	}{
		"few":               {99, 100, weirhttp.PairStats{}, "", "share"},
		"a small part":      {200, 10000, weirhttp.PairStats{}, "", "share"},
		"many":              {200, 400, weirhttp.PairStats{}, "200 of 400 requests share no response, because they differ in fields: X-Acme. If a field selects the response, write vary: [X-Acme].", "unkeyed_headers"},
		"with evidence":     {200, 400, weirhttp.PairStats{Same: 20}, "20 pairs of requests that differ in X-Acme alone got the same response: unkeyed_headers: [X-Acme]", "ignore_headers"},
		"evidence against":  {200, 400, weirhttp.PairStats{Same: 20, Differed: 1}, "vary: [X-Acme]", "unkeyed_headers"},
		"too few pairs yet": {200, 400, weirhttp.PairStats{Same: 19}, "vary: [X-Acme]", "unkeyed_headers"},
	} {
		got := sentences(tt.apart, tt.requests, tt.pair)
		if !strings.Contains(got, tt.has) || strings.Contains(got, tt.hasNot) {
			t.Errorf("%s: %q; want %q in it, and not %q", name, got, tt.has, tt.hasNot)
		}
	}
}

// sentences returns both sentences of apart, "" if there are none.
func sentences(n, requests uint64, pair weirhttp.PairStats) string {
	a := apart(weirhttp.Stats{Requests: requests}, weirhttp.AloneStats{
		Reasons: map[string]uint64{"apart": n}, Fields: map[string]uint64{"X-Acme": n, weirhttp.OtherFields: 2 * n},
		Pairs: map[string]weirhttp.PairStats{"X-Acme": pair},
	})
	if a == nil {
		return ""
	}
	return a.Text + " " + a.Next
}
