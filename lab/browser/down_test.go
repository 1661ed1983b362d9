package browser_test

import (
	"strings"
	"testing"

	"github.com/weir-go/weir/lab/browser"
)

// Without a reload, the page of a route reports that its service fails and what is
// served instead. So does the overview, and both clear the report afterwards.
func TestConsoleSaysThatTheServiceIsDown(t *testing.T) {
	s := open(t, "")
	p := s.tab(chromium(t), browser.View{Width: 400, Height: 800})
	must(t, p.Goto(s.admin+"/console/#/unit/pages"))
	defer s.busy()()
	const head = `document.querySelector(".page-head").innerText`
	must(t, p.Until(head+`.includes("healthy") && !document.querySelector(".banner")`))
	s.broken.Store(true)
	must(t, p.Until(head+`.includes("source failing")`),
		p.Until(`/calls to the source fail.*stale responses are served instead/.test(document.querySelector(".banner[data-level=bad]").innerText)`))
	must(t, p.Goto(s.admin+"/console/#/"), p.Until(`document.querySelector(".banner[data-level=bad] b").innerText == "shop"`),
		p.Until(`[...document.querySelectorAll("td .badge[data-level=bad]")].some(b => b.innerText == "source failing")`))
	// One incident is one banner with the next step, what clients get comes first, and
	// nothing is green (C12).
	for what, expression := range map[string]string{
		"banners":                       `document.querySelectorAll(".banner").length == 1`,
		"no next step":                  `document.querySelector(".banner .next").innerText.startsWith("Next: Check http://")`,
		"something above the responses": `document.querySelector(".panel h2").innerText == "What clients received"`,
		"something green": `![...document.querySelectorAll("body, body *")].some(e => {
			const s = getComputedStyle(e);
			return e.getClientRects().length && [s.color, s.backgroundColor, s.borderTopColor, s.fill, s.stroke].some(c => {
				const [r, g, b] = (c.match(/\d+(\.\d+)?/g) || []).map(Number);
				return g > 40 && g > 1.25 * r && g > 1.15 * b;
			});
		})`,
	} {
		if right, err := browser.Eval[bool](p, expression); !right || err != nil {
			t.Errorf("in the outage: %s, %v", what, err)
		}
	}
	s.broken.Store(false)
	must(t, p.Until(`!document.querySelector(".banner[data-level=bad]")`))
	s.quiet(p)
}

// When weir itself is gone, every page reports it, even one that was opened
// afterwards. No page shows a healthy status that is not faded, or a list that looks
// empty, and all still fit a narrow screen.
func TestConsoleSaysThatWeirIsGone(t *testing.T) {
	s := open(t, "")
	p := s.tab(chromium(t), browser.View{Width: 400, Height: 800})
	s.visit(20)
	must(t, p.Goto(s.admin+"/console/#/unit/pages"), p.Until(`document.querySelector(".badge[data-level=good]")`))
	s.end()
	must(t, p.Until(`document.querySelector("#lost:not([hidden])") && document.querySelector(".bar").innerText.includes("No connection")`))
	for _, page := range pages {
		must(t, p.Goto(s.admin+"/console/"+page), p.Until(`document.querySelector("main h1")`))
		for what, expression := range map[string]string{
			"is wider than the window": `document.documentElement.scrollWidth > innerWidth`,
			"has a good word":          `[...document.querySelectorAll("main .badge[data-level=good]")].some(e => !e.closest(".live"))`,
		} {
			if wrong, err := browser.Eval[bool](p, expression); wrong || err != nil {
				t.Errorf("%s %s: %v, %v", page, what, wrong, err)
			}
		}
	}
	for page, says := range map[string]string{
		"#/":     "It cannot be read: weir does not answer.",
		"#/hot":  "Hot keys cannot be read.",
		"#/jobs": "The jobs cannot be read: weir does not answer.",
	} {
		must(t, p.Goto(s.admin+"/console/"+page), p.Until(`document.querySelector("main").innerText.includes("`+says+`")`))
	}
	for _, said := range p.Messages() {
		if !strings.Contains(said, "Failed to load resource: net::ERR_") {
			t.Errorf("the browser's console has %q; want only failed connections", said)
		}
	}
}

// The console reports that an address has no page.
func TestConsoleHasNoSuchPage(t *testing.T) {
	s := open(t, "")
	p := s.tab(chromium(t), browser.View{Width: 400, Height: 800})
	must(t, p.Goto(s.admin+"/console/#/dashboards"), p.Until(`document.querySelector("main h1").innerText == "No such page"`),
		p.Click(`main a`), p.Until(`document.title.startsWith("Overview")`))
	s.quiet(p)
}
