package browser_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/lab/browser"
)

// submit submits a request as a job, and returns its ID.
func (s *house) submit(method, path string) string {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.public+path, nil)
	must(s.t, err)
	r.Header.Set("Prefer", "respond-async")
	resp, err := http.DefaultClient.Do(r)
	must(s.t, err)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted {
		s.t.Fatalf("%s %s: %s; want 202", method, path, resp.Status)
	}
	at := resp.Header.Get("Location")
	return at[strings.LastIndex(at, "/")+1:]
}

// listed returns the condition that the list has one job, in that state.
func listed(state string) string {
	return fmt.Sprintf(`[...document.querySelectorAll("td .badge")].map(b => b.innerText).join() == %q`, state)
}

const asks = `document.querySelector("dialog[open]")`

// act opens the only job in the list and presses its action button twice. It first
// answers no, with the keyboard, and then yes. The page must then show the outcome.
func (s *house) act(p *browser.Page, id, button, did string) {
	s.t.Helper()
	must(s.t, p.Click(`button.job`), p.Until(fmt.Sprintf(`document.querySelector(".actions button").innerText == %q`, button)),
		p.Click(`.actions button`), p.Until(asks+` && `+asks+`.innerText.includes(`+fmt.Sprintf("%q", id)+`)`),
		p.Type("\x1b"), p.Until("!"+asks))
	if told, err := browser.Eval[bool](p, `!!document.querySelector(".result")`); told || err != nil {
		s.t.Errorf("after a no, the page reports an action: %v, %v", told, err)
	}
	must(s.t, p.Click(`.actions button`), p.Until(asks), p.Click(`dialog[open] button[value=yes]`),
		p.Until(fmt.Sprintf(`[...document.querySelectorAll(".result")].some(r => r.innerText.includes(%q) && r.innerText.includes(%q))`, id, did)))
}

// A dead job is retried: the page asks for confirmation, does nothing after a no, and
// reports its action after a yes. Then the list shows the job as done.
func TestConsoleRetriesAJob(t *testing.T) {
	s := open(t, "")
	s.broken.Store(true)
	id := s.submit(http.MethodPost, "/reports/2026") // a POST is not retried
	p := s.tab(chromium(t), browser.View{Width: 1000, Height: 800})
	must(t, p.Goto(s.admin+"/console/#/jobs"), p.Until(listed("dead")))
	s.broken.Store(false)
	before := s.calls.Load()
	s.act(p, id, "Retry it", "was queued again")
	must(t, p.Until(listed("done")), p.Until(`!document.querySelector(".actions button")`))
	if n := s.calls.Load() - before; n != 1 {
		t.Errorf("%d calls to the service; want one, after the yes and not after the no", n)
	}
	s.quiet(p)
}

// A running job is canceled in the same way; that also cancels its call to the
// service.
func TestConsoleCancelsAJob(t *testing.T) {
	s := open(t, "")
	id := s.submit(http.MethodGet, "/reports/slow")
	p := s.tab(chromium(t), browser.View{Width: 400, Height: 800, Dark: true})
	must(t, p.Goto(s.admin+"/console/#/jobs"), p.Until(listed("running")))
	s.act(p, id, "Cancel it", "was canceled")
	must(t, p.Until(listed("canceled")), p.Until(`document.querySelector(".actions button").innerText == "Retry it"`))
	select {
	case <-s.left:
	case <-time.After(30 * time.Second):
		t.Error("the service is still working on the job 30 s after it was canceled")
	}
	s.quiet(p)
}

// The page explains a request without a confirmation: how it would be handled, and
// what is stored for its URL. It reports input that is not a header.
func TestConsoleExplains(t *testing.T) {
	s := open(t, "")
	p := s.tab(chromium(t), browser.View{Width: 400, Height: 800})
	must(t, p.Goto(s.admin+"/console/#/explain"), p.Until(`document.querySelector("#paste")`))
	explain := func(url, headers string) {
		t.Helper()
		must(t, p.Fill(`#paste`, fmt.Sprintf("curl '%s' -H 'Accept: text/html' --frobnicate", url)),
			p.Until(fmt.Sprintf(`document.querySelector("#url").value == %q && document.querySelector("#headers").value == "Accept: text/html"`, url)),
			p.Until(`document.body.innerText.includes("left out: --frobnicate")`), p.Fill(`#headers`, headers), p.Click(`form button[type=submit]`))
	}
	explain(s.public+"/pages/1?secret=swordfish", "Accept: text/html")
	must(t, p.Until(`document.querySelector(".verdict").innerText.includes("It makes a call of the source, which others may join.")`),
		p.Until(`document.body.innerText.includes("route pages") && document.body.innerText.includes("Nothing is stored.")`))
	if n := s.calls.Load(); n != 0 {
		t.Errorf("%d calls to the service; want none, because no request is made", n)
	}
	s.keeps.Store(true) // otherwise a visit on a busy machine may start a refresh, which is a call
	s.visit(30)         // one of them requests that page
	calls := s.calls.Load()
	explain(s.public+"/pages/1?secret=swordfish", "Accept: text/html")
	must(t, p.Until(`document.body.innerText.includes("1 variant") && document.querySelector(".steps li")`))
	if n := s.calls.Load() - calls; n != 0 {
		t.Errorf("%d calls to the service for an explanation; want none", n)
	}
	explain(s.public+"/pages/1", "no header")
	must(t, p.Until(`document.querySelector("[role=alert].result").innerText == "This is no header: no header"`))
	s.quiet(p)
}
