package browser_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weir-go/weir/console"
	"github.com/weir-go/weir/inspect"
	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/lab/browser"
)

// nothingRuns is a source without units.
type nothingRuns struct{ console.BaseSource }

func (nothingRuns) Snapshot() console.Snapshot {
	return console.Snapshot{At: time.Now(), Process: console.Process{State: "ready", Started: time.Now()}}
}
func (nothingRuns) Detail(string, int) (console.Detail, bool)        { return console.Detail{}, false }
func (nothingRuns) HotKeys(string, int) (h inspect.HotKeys, ok bool) { return h, false }

// J29: the page of a job shows its log as text, with the number of lines that are not kept. Its action and its
// error come first.
func TestJ29_ConsoleShowsAJobsLog(t *testing.T) {
	job := jobs.Status{
		ID: "77b0e1c26f0d4b7a9e8d3c2b1a09f8e7", Queue: "mail", State: jobs.StateRunning, Attempt: 2, Submitted: time.Now(), Started: time.Now(), Error: "no ink", Logged: 1242,
		Log: []jobs.LogLine{{At: time.Now(), Attempt: 1, Text: "first line"}, {At: time.Now(), Attempt: 2, Text: `<b>second</b> line`}},
	}
	c, err := console.New(console.Options{Source: nothingRuns{}, Jobs: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/jobs/mail/"+job.ID {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(job)
	})})
	must(t, err)
	defer c.Close(context.Background())
	mux := http.NewServeMux()
	mux.Handle("/console/", c)
	server := httptest.NewServer(mux)
	defer server.Close()
	p, err := chromium(t).Open(browser.View{Width: 400, Height: 800})
	must(t, err)
	defer p.Close()
	must(t, p.Goto(server.URL+"/console/#/jobs/mail/"+job.ID), p.Until(`document.querySelector("pre.job-log")`))
	text, err := browser.Eval[string](p, `document.querySelector("pre.job-log").innerText.replaceAll(/^\S+ \S+ +/gm, "")`)
	if want := "attempt 1  first line\nattempt 2  <b>second</b> line"; text != want || err != nil {
		t.Errorf("the log is %q, %v; want %q", text, err, want)
	}
	if ok, err := browser.Eval[bool](p, `document.body.innerText.includes("The 1,240 before these are not kept.")`); !ok || err != nil {
		t.Errorf("the page does not count the other lines: %v", err)
	}
	const first = `(([action, why, facts]) => action.compareDocumentPosition(why) & why.compareDocumentPosition(facts) & 4)(
		["main .actions", "pre.error", ".job-facts"].map(s => document.querySelector(s)))`
	if follows, err := browser.Eval[int](p, first); follows == 0 || err != nil {
		t.Errorf("the action and the error do not come first: %v", err)
	}
	if wide, err := browser.Eval[bool](p, `document.documentElement.scrollWidth > innerWidth`); wide || err != nil {
		t.Errorf("the page is wider than the window: %v, %v", wide, err)
	}
}
