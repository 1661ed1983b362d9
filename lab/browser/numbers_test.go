package browser_test

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/lab/browser"
)

// metric returns the values of a metric of a route at /metrics, by another label.
func (s *house) metric(name, route, label string) map[string]string {
	s.t.Helper()
	resp, err := http.Get(s.admin + "/metrics")
	must(s.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must(s.t, err)
	all := map[string]string{}
	line := regexp.MustCompile(`(?m)^` + name + `\{([^}]*)\} (\S+)$`)
	for _, m := range line.FindAllStringSubmatch(string(text), -1) {
		if strings.Contains(m[1], fmt.Sprintf("route=%q", route)) {
			value := ""
			if of := regexp.MustCompile(label + `="([^"]*)"`).FindStringSubmatch(m[1]); of != nil {
				value = of[1]
			}
			all[value] = m[2]
		}
	}
	return all
}

// Tiles, legends, the table, /metrics and /stats have the same numbers, by one definition
// each, and parts add up to what stands above them.
func TestC11_NumbersAgree(t *testing.T) {
	s := open(t, "")
	s.keeps.Store(true)
	p := s.tab(chromium(t), browser.View{Width: 1400, Height: 900})
	s.visit(40)
	for _, target := range []string{"/pages/missing-404", "/nowhere", "/nowhere"} {
		resp, err := http.Get(s.public + target)
		must(t, err)
		resp.Body.Close()
	}
	s.broken.Store(true)
	resp, err := http.Get(s.public + "/pages/not-stored-yet")
	must(t, err)
	resp.Body.Close()
	if resp.StatusCode != http.StatusServiceUnavailable {
		t.Fatalf("while the service is broken: %s; want its 503", resp.Status)
	}
	want := map[string]string{"1xx": "0", "2xx": "41", "3xx": "0", "4xx": "0", "5xx": "1", "broken": "0", "left": "0"}
	for end := time.Now().Add(30 * time.Second); fmt.Sprint(s.metric("weir_responses_total", "pages", "class")) != fmt.Sprint(want); {
		if time.Now().After(end) {
			t.Fatalf("/metrics has %v; want %v", s.metric("weir_responses_total", "pages", "class"), want)
		}
		time.Sleep(50 * time.Millisecond)
	}
	if got := s.metric("weir_responses_total", "", "class")["4xx"]; got != "2" {
		t.Errorf("/metrics has %s responses of 4xx without a route; want 2", got)
	}
	// The headline is the sum over all routes, and over what has none: 42 and 2.
	must(t, p.Goto(s.admin+"/console/#/"), p.Until(`/\b44 since the start/.test(document.querySelector(".received").innerText)`))
	// A rate is a mean over some seconds: wait until one of the table and one of the tile
	// are of the same second, and compare them as they are shown.
	must(t, p.Until(`(() => {
		const row = [...document.querySelectorAll("tbody tr")].find(r => r.innerText.startsWith("pages"));
		const parts = [...document.querySelectorAll(".received .shares b")].map(b => parseFloat(b.innerText));
		const head = parseFloat(document.querySelector(".received .big").innerText);
		return row && head > 0 && Math.abs(parts.reduce((a, b) => a + b) - head) <= 0.05 * parts.length;
	})()`))
	snapshot := `(await (await fetch("api/snapshot")).json())`
	for what, expression := range map[string]string{
		"the console's classes are not those of /metrics": `(async () => JSON.stringify(` + snapshot + `.units.find(u => u.name == "pages").responses) == '{"1xx":0,"2xx":41,"3xx":0,"4xx":0,"5xx":1,"broken":0,"left":0}')()`,
		"the parts of a route do not add up to its requests": `(async () => { const u = ` + snapshot + `.units.find(u => u.name == "pages"), a = u.avoided;
			return a.hits + a.stale + a.joined + a.validated + a.fleet + u.missed + u.unanswered + u.refused.limit + u.refused.client + u.left == u.requests && u.missed_errors == 1 })()`,
		"/stats has other responses": `(async () => JSON.stringify((await (await fetch("../stats")).json()).process.responses.pages["5xx"]) == "1")()`,
	} {
		if right, err := browser.Eval[bool](p, expression); !right || err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	// The page of the route has the exact counts, and so has /metrics.
	must(t, p.Goto(s.admin+"/console/#/unit/pages"), p.Until(`document.querySelector("[data-name=calls]")`))
	calls := s.metric("weir_http_calls_total", "pages", "kind")[""]
	hits := s.metric("weir_http_avoided_total", "pages", "kind")["hit"]
	must(t, p.Until(fmt.Sprintf(`document.querySelector("[data-name=calls]").dataset.value == %q && document.querySelector("[data-name=hits]").dataset.value == %q`, calls, hits)))
	must(t, p.Until(`/\b42 since the start/.test(document.querySelector(".received").innerText)`))
	s.quiet(p)
}
