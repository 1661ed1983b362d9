package browser_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/lab/browser"
)

// pages are the pages of the console.
var pages = []string{"#/", "#/unit/pages", "#/hot", "#/fleet", "#/jobs", "#/explain", "#/purge"}

// must ends the test at the first error.
func must(t *testing.T, steps ...error) {
	t.Helper()
	for _, err := range steps {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// tab opens a tab on the console. At the end of the test it checks that there were no
// messages and no requests to other hosts (C3).
func (s *house) tab(b *browser.Browser, v browser.View) *browser.Page {
	s.t.Helper()
	p, err := b.Open(v)
	must(s.t, err)
	s.t.Cleanup(p.Close)
	must(s.t, p.Goto(s.admin+"/console/"))
	return p
}

func (s *house) quiet(p *browser.Page) {
	s.t.Helper()
	if said := p.Messages(); len(said) > 0 {
		s.t.Errorf("the browser's console has %q; want nothing", said)
	}
	for _, url := range p.Asked() {
		if !strings.HasPrefix(url, s.admin) && !strings.HasPrefix(url, "data:") {
			s.t.Errorf("the page requested %s; want only URLs of %s", url, s.admin)
		}
	}
}

// quietBut is quiet, with messages about responses of that status.
func (s *house) quietBut(p *browser.Page, status string) {
	s.t.Helper()
	for _, said := range p.Messages() {
		if !strings.Contains(said, "status of "+status) {
			s.t.Errorf("the browser's console has %q; want only responses with %s", said, status)
		}
	}
}

// painted is true if the canvases of the page are not empty.
const painted = `[...document.querySelectorAll("canvas")].filter(c => {
	const d = c.width && c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
	return d && d.some((v, i) => i % 4 == 3 && v > 0);
}).length >= 4`

// The console opens, draws while a load runs, and shows the numbers of /stats (C5).
// It shows no key (C4), and writes nothing to the browser's console (C3).
func TestC5_ConsoleDrawsAndItsNumbersAreTheStats(t *testing.T) {
	s := open(t, "")
	p := s.tab(chromium(t), browser.View{Width: 1400, Height: 900})
	stop := s.busy()
	must(t, p.Until(`document.querySelector("main h1")`), p.Until(painted))
	must(t, p.Until(`/Hits\s*[1-9]/.test(document.body.innerText.replaceAll("\n", " "))`))
	stop()
	const shown = `(await (await fetch("api/snapshot")).json()).units.find(u => u.name == "pages")`
	type unit struct {
		Requests, Calls uint64
		Avoided         struct{ Hits, Stale, Joined uint64 }
	}
	// A background refresh may begin shortly after the last response, so compare
	// numbers only once they have stopped changing.
	var u unit
	st := s.stats("")
	for end := time.Now().Add(30 * time.Second); ; st = s.stats("") {
		var err error
		u, err = browser.Eval[unit](p, `(async () => { const u = `+shown+`; return {Requests: u.requests, Calls: u.calls, Avoided: {Hits: u.avoided.hits, Stale: u.avoided.stale, Joined: u.avoided.joined}} })()`)
		must(t, err)
		if s.stats("") == st {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the numbers still change without any requests")
		}
	}
	if st.Hits == 0 || st.Calls == 0 {
		t.Fatalf("stats = %+v; want hits and calls", st)
	}
	if u.Requests != st.Requests || u.Calls != st.Calls || u.Avoided.Hits != st.Hits || u.Avoided.Stale != st.Stale || u.Avoided.Joined != st.Joined {
		t.Errorf("the snapshot has %+v; want the numbers of /stats, %+v", u, st)
	}
	must(t, p.Until(fmt.Sprintf(`document.body.innerText.replaceAll(/[^0-9a-z\s]/g, "").includes("%d since the start")`, st.Requests)))
	for _, page := range pages {
		must(t, p.Goto(s.admin+"/console/"+page), p.Until(`document.querySelector("main h1")`))
		text, err := browser.Eval[string](p, `document.documentElement.outerHTML`)
		must(t, err)
		if strings.Contains(text, "swordfish") || strings.Contains(text, "/pages/") {
			t.Errorf("%s shows a key: %s", page, text)
		}
	}
	s.quiet(p)
}

// Every page fits a narrow screen, in both color schemes, with the service up, down
// and before the first request. Every control has a name.
func TestConsolePagesFitAndHaveNames(t *testing.T) {
	s := open(t, "")
	b := chromium(t)
	for _, state := range []string{"empty", "loaded", "down"} {
		if state == "loaded" {
			s.visit(200)
		}
		if s.broken.Store(state == "down"); state == "down" {
			s.visit(50)
		}
		for _, v := range []browser.View{{Width: 400, Height: 800}, {Width: 1400, Height: 900, Dark: true}} {
			p := s.tab(b, v)
			for _, page := range pages {
				must(t, p.Goto(s.admin+"/console/"+page), p.Until(`document.querySelector("main h1")`))
				wide, err := browser.Eval[int](p, `document.documentElement.scrollWidth - innerWidth`)
				must(t, err)
				if wide > 0 {
					t.Errorf("%s, %s: %d pixels wider than the window of %d", state, page, wide, v.Width)
				}
				nameless, err := browser.Eval[string](p, `[...document.querySelectorAll("button, a, input, select, textarea, [role=img], canvas")].filter(e => {
					if (e.closest("[hidden], [aria-hidden=true], dialog:not([open])")) return false;
					if (e.tagName == "CANVAS" && e.closest("[role=img]")) return false;
					return !((e.getAttribute("aria-label") || e.innerText || e.title || "").trim() || e.getAttribute("aria-labelledby") || (e.labels && e.labels.length));
				}).map(e => e.outerHTML.slice(0, 120)).join("\n")`)
				must(t, err)
				if nameless != "" {
					t.Errorf("%s, %s: without a name:\n%s", state, page, nameless)
				}
			}
			s.quiet(p)
			p.Close()
		}
	}
}

// A purge asks for confirmation, then purges, and reports the result (C7).
func TestC7_PurgeAsksAndDoes(t *testing.T) {
	s := open(t, "")
	p := s.tab(chromium(t), browser.View{Width: 1000, Height: 800})
	s.visit(30)
	stored := func() int {
		n, err := browser.Eval[int](p, `fetch("api/snapshot").then(r => r.json()).then(s => s.stores[0].entries)`)
		must(t, err)
		return n
	}
	before := stored()
	if before == 0 {
		t.Fatal("nothing is stored; want pages")
	}
	must(t, p.Goto(s.admin+"/console/#/purge"), p.Click(`input[name=what][value=tags]`), p.Fill(`#purge-tags`, "shelf"),
		p.Click(`form button[type=submit]`), p.Until(`document.querySelector("dialog[open]")`))
	if n := stored(); n != before {
		t.Errorf("%d are stored during the confirmation; want still %d", n, before)
	}
	must(t, p.Type("\x1b"), p.Until(`!document.querySelector("dialog[open]") && document.body.innerText.includes("Nothing was purged")`))
	if n := stored(); n != before {
		t.Errorf("%d are stored after a no; want still %d", n, before)
	}
	must(t, p.Click(`form button[type=submit]`), p.Until(`document.querySelector("dialog[open]")`), p.Click(`dialog[open] button.danger`),
		p.Until(`document.body.innerText.includes("Every entry with the tag shelf is purged")`))
	calls := s.calls.Load()
	s.visit(1)
	if s.calls.Load() == calls {
		t.Error("a page with the tag is served from the cache; want a call")
	}
	s.quiet(p)
}

// With a token, the browser is redirected to the login page. After the login the
// whole console works, with a cookie that no script can read (C2).
func TestC2_LoginInABrowser(t *testing.T) {
	const token = "correct-horse-battery"
	s := open(t, token)
	p := s.tab(chromium(t), browser.View{Width: 400, Height: 800})
	must(t, p.Until(`document.querySelector("input[type=password]")`))
	p.Forget()                                                                     // the browser logs that the page itself had status 401
	must(t, p.Fill(`input[type=password]`, token), p.Click(`button[type=submit]`)) // with the form, without a script
	must(t, p.Until(`document.querySelector("main h1") && location.pathname == "/console/"`), p.Until(`document.body.innerText.includes("Live")`))
	cookie, err := browser.Eval[string](p, `document.cookie + location.href`)
	must(t, err)
	if strings.Contains(cookie, "=") || strings.Contains(cookie, token) {
		t.Errorf("a script reads %q; want no cookie, and no token in the URL", cookie)
	}
	s.quiet(p)
	resp, err := http.Get(s.admin + "/console/api/snapshot")
	must(t, err)
	resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("without the cookie: %d; want 401", resp.StatusCode)
	}
}
