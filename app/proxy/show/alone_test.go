package show

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-go/weir/console"
	"github.com/weir-go/weir/weirhttp"
)

// Requests that share nothing have a reason in words, and a note if they are many and something can
// change it.
func TestH22_WhatKeepsRequestsApart(t *testing.T) {
	for name, tt := range map[string]struct {
		reason          string
		alone, requests uint64
		pair            weirhttp.PairStats
		has, hasNot     string
		advise          bool
	}{
		"few":               {"apart", 99, 100, weirhttp.PairStats{}, "99 of 100 requests share no response", "unkeyed_headers", false},
		"a small part":      {"apart", 200, 10000, weirhttp.PairStats{}, "200 of 10000", "unkeyed_headers", false},
		"many":              {"apart", 200, 400, weirhttp.PairStats{}, "200 of 400 requests share no response, because they differ in fields: X-Acme. If a field selects the response: cache: {vary: [X-Acme]}.", "unkeyed_headers", true},
		"with evidence":     {"apart", 200, 400, weirhttp.PairStats{Same: 20}, "20 pairs of requests that differ in X-Acme alone got the same response: cache: {unkeyed_headers: [X-Acme]}", "ignore_headers", true},
		"evidence against":  {"apart", 200, 400, weirhttp.PairStats{Same: 20, Differed: 1}, "vary: [X-Acme]", "unkeyed_headers", true},
		"too few pairs yet": {"apart", 200, 400, weirhttp.PairStats{Same: 19}, "vary: [X-Acme]", "unkeyed_headers", true},
		"cookies":           {"cookie", 200, 400, weirhttp.PairStats{}, `because they have a Cookie, and the response is not marked as the same for all clients. If responses do not depend on cookies: cache: {ignore_cookies: ["*"]}.`, "X-Acme", true},
		"uploads":           {"method", 200, 400, weirhttp.PairStats{}, "because their method is not GET or HEAD. If some of them only read: reads:", "X-Acme", false},
		"of a later time":   {"moon", 200, 400, weirhttp.PairStats{}, "because of moon, as Cache-Status calls it.", "X-Acme", false},
	} {
		all := alone(weirhttp.Stats{Requests: tt.requests}, weirhttp.AloneStats{
			Reasons: map[string]uint64{tt.reason: tt.alone, "upgrade": 1, "vary": 0}, Fields: map[string]uint64{"X-Acme": tt.alone, weirhttp.OtherFields: 2 * tt.alone},
			Pairs: map[string]weirhttp.PairStats{"X-Acme": tt.pair},
		})
		if len(all) != 2 || all[0].Reason != tt.reason || all[0].Count != tt.alone || all[0].Advise != tt.advise || all[1].Reason != "upgrade" {
			t.Errorf("%s: %+v; want the reason first, advise %v", name, all, tt.advise)
			continue
		}
		if got := all[0].Text + " " + all[0].Next; !strings.Contains(got, tt.has) || strings.Contains(got, tt.hasNot) {
			t.Errorf("%s: %q; want %q in it, and not %q", name, got, tt.has, tt.hasNot)
		}
	}
}

// Every reason of the library has its words here.
func TestH22_EachReasonHasWords(t *testing.T) {
	n := 0
	for file, form := range map[string]string{
		"../../../internal/rfc9111/storable.go": `Reason\w+ += "([a-z-]+)"`,
		"../../../weirhttp/bypass.go":           `bypass\w+: +"([a-z-]+)"`,
		"../../../weirhttp/alone.go":            `alone\w+ += "([a-z-]+)"`,
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(form).FindAllStringSubmatch(string(text), -1) {
			if n++; m[1] != "apart" && remedies[m[1]].because == "" {
				t.Errorf("%s has the reason %q, which has no words", file, m[1])
			}
		}
	}
	if n < 25 {
		t.Errorf("%d reasons were found in the source; want all of them", n)
	}
}

// Observe mode reports in a sentence, with what to do next.
func TestH22_WhatObserveModeHasFound(t *testing.T) {
	why := []console.Alone{{Text: "They have a Cookie.", Next: "ignore_cookies"}}
	for name, tt := range map[string]struct {
		st         weirhttp.Stats
		why        []console.Alone
		text, next string
	}{
		"nothing yet": {weirhttp.Stats{}, nil, "no requests yet", ""},
		"saves": {weirhttp.Stats{Requests: 462, Observed: weirhttp.ObserveStats{Hits: 300, Joined: 25, Compared: 320, Refused: 1, RefusedClient: 2}}, why,
			"of 462 requests, 325 (70 %) would need no upstream call, and 3 would be refused. None of 320 compared responses differed.", "remove observe: true"},
		"differs": {weirhttp.Stats{Requests: 462, Observed: weirhttp.ObserveStats{Hits: 325, Compared: 320, Differed: 3}}, nil, "3 of 320 compared responses differed", "Keep observing"},
		"cookies": {weirhttp.Stats{Requests: 462}, why, "0 (0 %) would need no upstream call", "ignore_cookies"},
	} {
		o := observed(tt.st, tt.why)
		if !strings.Contains(o.Text, tt.text) || !strings.Contains(o.Next, tt.next) || tt.next == "" && o.Next != "" {
			t.Errorf("%s: %q, next %q; want %q, next %q", name, o.Text, o.Next, tt.text, tt.next)
		}
	}
}
