package top_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/weir-go/weir/app/top"
	"github.com/weir-go/weir/console"
	"github.com/weir-go/weir/inspect"
)

// Weir top has the definitions of the console: both read the same file of cases.
func TestC13_TopShowsTheNumbersOfTheConsole(t *testing.T) {
	var file struct {
		Cases []struct {
			Name   string
			Kind   string
			Series console.Series
			Want   map[string]*float64
			By     map[string]float64 `json:"refused_by"`
		}
	}
	text, err := os.ReadFile("../../console/assets_test/testdata/rates.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &file); err != nil || len(file.Cases) == 0 {
		t.Fatalf("%d cases, %v", len(file.Cases), err)
	}
	for _, c := range file.Cases {
		unit := console.Unit{Name: "a", Kind: c.Kind}
		if c.Kind == "route" {
			unit.Responses = &console.Responses{}
		}
		var m top.Model
		m.Hello(&console.Hello{Interval: time.Second, Snapshot: console.Snapshot{Units: []console.Unit{unit}}, Total: c.Series, Units: map[string]console.Series{"a": c.Series}})
		o := m.Overview()
		for of, r := range map[string]top.Rates{"total": o.Total, "route": o.Routes[0].Rates} {
			if c.By != nil && !maps.Equal(r.RefusedBy, c.By) {
				t.Errorf("%s, %s: refused by %v; want %v", c.Name, of, r.RefusedBy, c.By)
			}
			for name, got := range map[string]float64{
				"responses": r.Received, "errors": float64(r.Errors), "requests": r.Requests, "saved": float64(r.Saved), "calls": r.Calls,
				"failed": r.Failed, "refused": r.Refused, "over_rate": r.OverRate, "stale": r.Stale, "p99": float64(r.P99),
			} {
				want := math.NaN()
				if p := c.Want[name]; p != nil {
					want = *p
				}
				if math.Abs(got-want) > 1e-12 || math.IsNaN(got) != math.IsNaN(want) {
					t.Errorf("%s, %s: %s = %v; want %v", c.Name, of, name, got, want)
				}
			}
		}
	}
}

// So does the cost: both read the same file of cases.
func TestC13_TopShowsTheCostOfTheConsole(t *testing.T) {
	var file struct {
		Cases []struct {
			Name  string
			Units []console.Unit
			Want  *struct {
				Spent, Avoided, Refused uint64
				Currency                string
				Money                   *struct{ Spent, Avoided, Refused float64 }
			}
		}
	}
	text, err := os.ReadFile("../../console/assets_test/testdata/costs.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &file); err != nil || len(file.Cases) == 0 {
		t.Fatalf("%d cases, %v", len(file.Cases), err)
	}
	for _, c := range file.Cases {
		var m top.Model
		m.Hello(&console.Hello{Interval: time.Second, Snapshot: console.Snapshot{Units: c.Units}, Total: console.Series{"t": {1}, "cost_spent": {12}}})
		o := m.Overview()
		lines := strings.Join(top.Style{}.Lines(o), "\n")
		got, want := o.Cost, c.Want
		if (got == nil) != (want == nil) || strings.Contains(lines, "cost ") != (want != nil) {
			t.Errorf("%s: %+v; want %+v, in\n%s", c.Name, got, want, lines)
		}
		if got == nil || want == nil {
			continue
		}
		if got.Spent != want.Spent || got.Avoided != want.Avoided || got.Refused != want.Refused || (got.Money == nil) != (want.Money == nil) {
			t.Errorf("%s: %+v; want %+v", c.Name, got, want)
		}
		if m := got.Money; m != nil {
			if m.Currency != want.Currency || math.Abs(m.Spent-want.Money.Spent)+math.Abs(m.Avoided-want.Money.Avoided)+math.Abs(m.Refused-want.Money.Refused) > 1e-9 {
				t.Errorf("%s: %+v; want %+v", c.Name, m, want.Money)
			}
			if !strings.Contains(lines, "cost 12/s; since the start 6.00 EUR spent, 1.30 EUR avoided, 0.04 EUR refused") {
				t.Errorf("%s:\n%s\nwant the money", c.Name, lines)
			}
		}
	}
}

// outage is a model of two upstreams, one of which is down, with many routes.
func outage(routes int) *top.Model {
	series := console.Series{"t": {1}, "requests": {100}, "calls": {50}, "failed": {50}, "missed": {90}, "missed_errors": {90}, "http_5xx": {90}, "http_2xx": {10}, "request_p50": {0.001}, "request_p99": {0.25}}
	h := &console.Hello{Title: "weir proxy", Interval: time.Second, Total: series, Units: map[string]console.Series{}}
	h.Snapshot.At = time.Date(2026, 11, 25, 3, 0, 0, 0, time.Local)
	h.Snapshot.Process = console.Process{Version: "v1.2.3", Started: h.Snapshot.At.Add(-90 * time.Minute), State: "ready"}
	for i := range routes {
		name := "route-number-" + strconv.Itoa(i) + "-with-a-long-name"
		h.Snapshot.Units = append(h.Snapshot.Units, console.Unit{Name: name, Kind: "route", Upstream: "shop", Responses: &console.Responses{}})
		h.Units[name] = series
	}
	for i := range 2 {
		h.Snapshot.Servers = append(h.Snapshot.Servers, console.Server{Upstream: "shop", URL: "http://a-server-with-a-long-name-" + strconv.Itoa(i) + ".eu-central-1.internal.example:8080", Ejected: true, Healthy: true})
	}
	h.Snapshot.Limits = []console.Limit{{Name: "shop", Kind: "adaptive", Limit: 1, InUse: 1, Queued: 7}}
	h.Snapshot.Queues = []console.Queue{{Name: "reports", Dead: 3}}
	if routes < 10 { // there is room
		h.Snapshot.Budgets = []console.Budget{{Kind: "upstream", Name: "shop", PerSecond: 2, Burst: 1000, Left: -20, Refused: 1234}}
	}
	h.Incidents = []console.Incident{
		{Level: "bad", Subject: "shop", Text: "all calls to the source fail, and 2 of 2 servers are ejected or fail their checks; clients get errors, 90/s, which is 90\u202f% of all responses.", Next: "Check the servers."},
		{Level: "note", Subject: "Jobs", Text: "3 jobs of reports are dead: out of attempts.", Next: "Retry what can succeed now: weir jobs dead."},
	}
	m := new(top.Model)
	m.Hello(h)
	return m
}

// The overview fits the terminal: what is left out is counted, and both ends of a server's
// URL remain. The incident comes first, once.
func TestC13_TopFitsTheTerminal(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {80, 12}, {200, 60}, {40, 24}, {0, 0}} {
		lines := top.Style{Width: size[0], Height: size[1]}.Lines(outage(30).Overview())
		all := strings.Join(lines, "\n")
		if size[1] > 0 && len(lines) > size[1] {
			t.Errorf("%v: %d lines", size, len(lines))
		}
		for _, line := range lines {
			if n := utf8.RuneCountInString(line); size[0] > 0 && n > size[0] {
				t.Errorf("%v: %d columns: %s", size, n, line)
			}
		}
		if n := strings.Count(all, "ACT "); n != 1 {
			t.Errorf("%v: %d incidents that need action; want one:\n%s", size, n, all)
		}
		if size == [2]int{80, 24} {
			for _, want := range []string{"shop: all calls to the source fail, and 2 of 2 servers are ejected", "which is 90 % of all", "Next: Check the servers.", "clients received 100/s, errors 90 %", "… and ", " more", ":8080  ejected", "reports", "7"} {
				if !strings.Contains(all, want) {
					t.Errorf("%v: no %q in\n%s", size, want, all)
				}
			}
		}
		if size[1] == 0 && (strings.Contains(all, "…") || strings.Count(all, "route-number-") != 30) {
			t.Errorf("without a terminal something is left out:\n%s", all)
		}
	}
}

// Weir top shows the incidents of the console with the next step, in text the same as on a terminal.
func TestC13_TopShowsTheNextStep(t *testing.T) {
	o := outage(2).Overview()
	for _, style := range []top.Style{{}, {Width: 120}, {Width: 120, Height: 60}} {
		all := strings.Join(style.Lines(o), "\n")
		for _, want := range []string{"Next: Check the servers.", "Next: Retry what can succeed now: weir jobs dead.", "upstream shop   -20  1,000  2 per second       0    1,234"} {
			if !strings.Contains(all, want) {
				t.Errorf("%+v: no %q in\n%s", style, want, all)
			}
		}
	}
	if all := strings.Join(top.Style{Width: 80, Height: 24}.Lines(o), "\n"); strings.Count(all, "Next: ") != 1 {
		t.Errorf("80 x 24 has not the next step of the worst incident alone:\n%s", all)
	}
	var old top.Model
	old.Hello(&console.Hello{})
	if o := old.Overview(); len(o.Incidents) != 1 || o.Incidents[0].Level != "note" {
		t.Errorf("an older proxy has the incidents %+v; want a note that they are not known", o.Incidents)
	}
}

// J28: a paused queue is marked, and an incident says how to resume it.
func TestJ28_TopShowsAPausedQueue(t *testing.T) {
	m := new(top.Model)
	m.Hello(&console.Hello{Snapshot: console.Snapshot{Queues: []console.Queue{{Name: "mail", Waiting: 1200, Paused: true}, {Name: "reports", Waiting: 5}}}, Incidents: []console.Incident{
		{Level: "warn", Subject: "Jobs", Text: "mail is paused: none of its jobs starts, and 1,200 jobs are waiting.", Next: "“weir jobs resume mail”."},
	}})
	all := strings.Join(top.Style{}.Lines(m.Overview()), "\n")
	for _, want := range []string{"WATCH Jobs: mail is paused: none of its jobs starts, and 1,200 jobs are waiting.", "Next: “weir jobs resume mail”", "(paused) mail"} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in\n%s", want, all)
		}
	}
	if n := strings.Count(all, "paused"); n != 2 {
		t.Errorf("%d times paused in\n%s; want 2, not for reports", n, all)
	}
}

// serve serves a console, and returns the URL of its admin listener.
func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

type source struct{ console.BaseSource }

func (source) Snapshot() console.Snapshot {
	return console.Snapshot{Units: []console.Unit{{Name: "pages", Kind: "route", Responses: &console.Responses{Success: 5}}}, Process: console.Process{State: "ready", Started: time.Now()}}
}
func (source) Detail(string, int) (console.Detail, bool)        { return console.Detail{}, false }
func (source) HotKeys(string, int) (h inspect.HotKeys, ok bool) { return h, false }

func TestC13_TopReadsTheConsole(t *testing.T) {
	const token = "correct-horse-battery"
	c, err := console.New(console.Options{Title: "shop", Source: source{}, Access: console.Access{Token: token}, Interval: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	mux := http.NewServeMux()
	mux.Handle("/console/", c)
	url := serve(t, mux)
	o, err := top.Once(t.Context(), top.Options{URL: url, Token: token})
	if err != nil || o.Title != "shop" || len(o.Routes) != 1 || o.Routes[0].Name != "pages" || o.Total.Responses == nil {
		t.Errorf("Once = %+v, %v; want the console's overview", o, err)
	}
	var out, problems bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if err := top.Plain(ctx, top.Options{URL: url, Token: token}, 100*time.Millisecond, &out, &problems, true); err != nil || problems.Len() > 0 {
		t.Errorf("Plain: %v, %s", err, &problems)
	}
	if line, _, _ := strings.Cut(out.String(), "\n"); json.Unmarshal([]byte(line), new(map[string]any)) != nil || !strings.Contains(line, `"errors_share":null`) {
		t.Errorf("the first line is %q; want JSON, with null for what is unknown", line)
	}
	for name, row := range map[string]struct {
		o    top.Options
		want string
	}{
		"no token":      {top.Options{URL: url}, "wants its token: --token-file FILE"},
		"another token": {top.Options{URL: url, Token: "another-horse-battery"}, "different token"},
		"no console":    {top.Options{URL: serve(t, http.NotFoundHandler())}, "has no console: weir top needs admin.console"},
		"not weir":      {top.Options{URL: serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("<html>")) }))}, "is it the admin listener of a weir proxy?"},
	} {
		_, err := top.Once(t.Context(), row.o)
		if _, fatal := errors.AsType[*top.FatalError](err); !fatal || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v; want %q, which no further attempt changes", name, err, row.want)
		}
	}
	if _, err := top.Once(t.Context(), top.Options{URL: "http://127.0.0.1:1"}); err == nil || !strings.Contains(err.Error(), "does not respond") || strings.Contains(err.Error(), "/console/events") {
		t.Errorf("nobody there: %v; want a sentence", err)
	}
}

// The screen is restored, once.
func TestC13_TopRestoresTheTerminal(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "screen"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, err := top.OpenScreen(f, strings.NewReader(""))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Draw([]string{"one", "two"}); err != nil {
		t.Fatal(err)
	}
	s.Close()
	s.Close()
	got, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	if want := "\x1b[?1049h\x1b[?25l\x1b[H\x1b[2J\x1b[Hone\x1b[K\r\ntwo\x1b[K\x1b[J\x1b[?25h\x1b[?1049l"; string(got) != want {
		t.Errorf("wrote %q; want %q", got, want)
	}
}
