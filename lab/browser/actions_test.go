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

// act opens the page of the only job in the list and presses its action button twice. It first
// answers no, with the keyboard, and then yes. The page must then show the outcome.
func (s *house) act(p *browser.Page, id, button, did string) {
	s.t.Helper()
	must(s.t, p.Click(`a.job`), p.Until(`location.hash.startsWith("#/jobs/")`), p.Until(fmt.Sprintf(`document.querySelector(".actions button").innerText == %q`, button)),
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
	must(t, p.Until(`document.querySelector(".page-head .badge").innerText == "done"`), p.Until(`!document.querySelector(".actions button")`))
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
	must(t, p.Until(`document.querySelector(".page-head .badge").innerText == "canceled"`), p.Until(`document.querySelector(".actions button").innerText == "Retry it"`))
	select {
	case <-s.left:
	case <-time.After(30 * time.Second):
		t.Error("the service is still working on the job 30 s after it was canceled")
	}
	s.quiet(p)
}

// J28: a paused queue is marked in the table of queues, and a banner on the overview says
// how to resume it. Both disappear when it is resumed.
func TestJ28_ConsoleShowsAPausedQueue(t *testing.T) {
	s := open(t, "")
	p := s.tab(chromium(t), browser.View{Width: 400, Height: 800})
	must(t, p.Goto(s.admin+"/console/#/jobs"))
	set := func(verb string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.admin+"/jobs/queues/reports/"+verb, nil)
		must(t, err)
		resp, err := http.DefaultClient.Do(r)
		must(t, err)
		must(t, resp.Body.Close())
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s", verb, resp.Status)
		}
	}
	const mark = `[...document.querySelectorAll("th .badge")].some(b => b.innerText == "paused")`
	const banner = `document.body.innerText.includes("“weir jobs resume reports”")`
	set("pause")
	must(t, p.Until(mark), p.Goto(s.admin+"/console/#/"), p.Until(banner))
	set("resume")
	must(t, p.Until("!"+banner), p.Goto(s.admin+"/console/#/jobs"), p.Until("!"+mark))
	s.quiet(p)
}

// The list names jobs by method and, with show_keys, by path; a job and a filter have their
// own addresses. Many jobs are retried at once: the filter counts them, the page asks for
// confirmation with that count, and nothing happens after a no, or if the count is not right
// any more.
func TestC7_ConsoleRetriesManyJobs(t *testing.T) {
	s := openWith(t, "", "show_keys: true")
	s.broken.Store(true)
	for i := range 3 {
		s.submit(http.MethodPost, fmt.Sprintf("/reports/2026/quarter-%d?secret=swordfish", i))
	}
	p := s.tab(chromium(t), browser.View{Width: 400, Height: 800})
	must(t, p.Goto(s.admin+"/console/#/jobs"), p.Until(`document.querySelectorAll("a.job").length == 3`))
	const bulk = `[...document.querySelectorAll(".actions button:not([hidden])")].map(b => b.innerText).join()`
	const dead = `[...document.querySelectorAll(".states button")].find(b => b.innerText.startsWith("dead"))`
	must(t, p.Until(dead+`.innerText.replaceAll(/\s+/g, " ") == "dead 3"`), p.Until(bulk+` == ""`))
	names, err := browser.Eval[string](p, `[...document.querySelectorAll("a.job")].map(a => a.innerText).sort().join()`)
	if want := "POST /reports/2026/quarter-0,POST /reports/2026/quarter-1,POST /reports/2026/quarter-2"; names != want || err != nil {
		t.Errorf("the jobs are called %q, %v; want %q", names, err, want)
	}
	if cut, err := browser.Eval[bool](p, `[...document.querySelectorAll("a.job")].some(a => a.scrollWidth > a.clientWidth + 1 && getComputedStyle(a).overflow != "visible")`); cut || err != nil {
		t.Errorf("a path is cut off: %v, %v", cut, err)
	}
	must(t, p.Click(`.states button:nth-child(6)`), p.Until(bulk+` == "Retry 3 dead jobs…"`), p.Until(`location.hash == "#/jobs?state=dead"`))
	retry := func() {
		t.Helper()
		must(t, p.Click(`.actions button:not([hidden])`), p.Until(asks+` && `+asks+`.innerText.includes("Retry 3 dead jobs?")`))
	}
	calls := s.calls.Load()
	retry()
	must(t, p.Type("\x1b"), p.Until("!"+asks))
	if n := s.calls.Load(); n != calls {
		t.Errorf("%d calls after a no; want %d", n, calls)
	}
	retry() // and meanwhile the number changes
	s.submit(http.MethodPost, "/reports/late")
	must(t, p.Until(`fetch("api/jobs?state=dead&limit=10").then(r => r.json()).then(x => x.jobs.length == 4)`))
	must(t, p.Click(`dialog[open] button[value=yes]`), p.Until(`document.querySelector(".result[data-level=bad]").innerText.includes("3 jobs were confirmed, and there are 4 now: nothing was done.")`))
	s.broken.Store(false)
	must(t, p.Until(bulk+` == "Retry 4 dead jobs…"`), p.Click(`.actions button:not([hidden])`), p.Until(asks), p.Click(`dialog[open] button[value=yes]`),
		p.Until(`document.querySelector(".result[data-level=good]").innerText == "4 jobs were queued again."`),
		p.Until(dead+`.innerText.replaceAll(/\s+/g, " ") == "dead 0"`))
	s.quietBut(p, "409")
}

// Ticked jobs are canceled together, and only those.
func TestC7_ConsoleCancelsTickedJobs(t *testing.T) {
	s := open(t, "")
	for _, query := range []string{"1", "2"} {
		id := s.submit(http.MethodGet, "/reports/slow?"+query)
		t.Cleanup(func() { // or weir would wait for it at the end
			if resp, err := http.Post(s.admin+"/jobs/reports/"+id+"/cancel", "", nil); err == nil {
				resp.Body.Close()
			}
		})
	}
	p := s.tab(chromium(t), browser.View{Width: 1000, Height: 800})
	must(t, p.Goto(s.admin+"/console/#/jobs"), p.Until(`document.querySelectorAll("td .badge").length == 2 && [...document.querySelectorAll("td .badge")].every(b => b.innerText == "running")`),
		p.Click(`td input[type=checkbox], th input[type=checkbox]`))
	must(t, p.Click(`.actions button:not([hidden])`), p.Until(asks+` && `+asks+`.innerText.includes("Cancel 1 selected job?")`), p.Click(`dialog[open] button[value=yes]`),
		p.Until(`document.querySelector(".result[data-level=good]").innerText == "1 job was canceled."`),
		p.Until(`[...document.querySelectorAll("td .badge")].map(b => b.innerText).sort().join() == "canceled,running"`))
	text, err := browser.Eval[string](p, `document.documentElement.outerHTML`)
	if strings.Contains(text, "/reports/slow") || !strings.Contains(text, ">GET<") || err != nil {
		t.Errorf("without show_keys the list shows a path, or no method: %v", err)
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
	must(t, p.Until(`document.querySelector(".verdict").innerText.includes("It makes a call to the source, which others may join.")`),
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
