package proxy_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// speak sends a request with these fields, and returns the response.
func speak(t *testing.T, method, url, body string, fields ...string) (answer, http.Header) {
	t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		r.Header.Add(name, value)
	}
	resp, err := http.DefaultTransport.RoundTrip(r) // follows no redirects
	if err != nil {
		return answer{err: err}, nil
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, string(b), resp.Close, err}, resp.Header
}

// newLibrary is an origin whose responses are fresh for a minute.
func newLibrary(t *testing.T) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=60")
		io.WriteString(w, "ok")
	}))
	t.Cleanup(s.Close)
	return s
}

// A shownUnit contains the fields of a unit that are compared.
type shownUnit struct {
	Name     string
	Kind     string
	Requests uint64
	Calls    uint64
	Avoided  struct{ Hits, Joined uint64 }
	Time     struct{ Count uint64 } `json:"request_time"`
}

type shown struct {
	Units  []shownUnit
	Stores []struct{ Entries int }
	Limits []struct{ Admitted uint64 }
	Queues []struct {
		Name string
		Done uint64
	}
}

func snapshot(t *testing.T, p *process) (s shown) {
	t.Helper()
	a := get(p.admin + "/console/api/snapshot")
	if err := json.Unmarshal([]byte(a.body), &s); err != nil || a.status != 200 {
		t.Fatalf("the snapshot is %+v (%v)", a, err)
	}
	return s
}

// The console shows the same numbers as /stats and /metrics.
func TestC5_ConsoleStatsAndMetricsSayTheSame(t *testing.T) {
	p := start(t, "--upstream", newLibrary(t).URL, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	for i := range 30 {
		get(fmt.Sprint(p.listen[0], "/", i%5))
	}
	var stats struct {
		Cache     struct{ Responses int }
		Routes    map[string]struct{ Requests, Hits, Calls uint64 }
		Upstreams map[string]struct{ Limit struct{ Admitted uint64 } }
	}
	var s shown
	until(t, "the last request to be counted", func() bool { // which can be a moment after its response
		s = snapshot(t, p)
		return len(s.Units) == 1 && s.Units[0].Time.Count == 30
	})
	if err := json.Unmarshal([]byte(get(p.admin+"/stats").body), &stats); err != nil {
		t.Fatal(err)
	}
	r, u := stats.Routes["default"], s.Units[0]
	if u.Name != "default" || u.Kind != "route" || u.Requests != 30 || u.Avoided.Hits != 25 || u.Calls != 5 ||
		u.Requests != r.Requests || u.Avoided.Hits != r.Hits || u.Calls != r.Calls ||
		len(s.Stores) != 1 || s.Stores[0].Entries != stats.Cache.Responses ||
		len(s.Limits) != 1 || s.Limits[0].Admitted != stats.Upstreams["default"].Limit.Admitted {
		t.Errorf("the console shows %+v, /stats %+v; want the same in both: 30 requests with 25 hits", s, stats)
	}
	a := get(p.admin + "/metrics")
	parser := expfmt.NewTextParser(model.UTF8Validation)
	all, err := parser.TextToMetricFamilies(strings.NewReader(a.body))
	if err != nil || a.status != 200 {
		t.Fatalf("/metrics is %d and does not parse: %v", a.status, err)
	}
	for name, want := range map[string]float64{
		"weir_http_requests_total": 30, "weir_http_calls_total": 5, "weir_cache_responses": 5, "weir_ready": 1,
		"weir_config_reloads_total": 0, "weir_config_last_reload_ok": 1, "weir_build_info": 1,
	} {
		f := all[name]
		if f == nil || len(f.Metric) != 1 {
			t.Errorf("/metrics has %s = %v; want one metric", name, f)
		} else if got := f.Metric[0].GetCounter().GetValue() + f.Metric[0].GetGauge().GetValue(); got != want {
			t.Errorf("%s = %v; want %v", name, got, want)
		}
	}
	// A request right after one of net/http can be left to it.
	if n := all["weir_fast_requests_total"].GetMetric()[0].GetCounter().GetValue(); n < 1 || n > 30 {
		t.Errorf("weir_fast_requests_total = %v; want most of 30 requests", n)
	}
	if n := all["weir_http_request_duration_seconds"].GetMetric()[0].GetHistogram().GetSampleCount(); n != 30 {
		t.Errorf("weir_http_request_duration_seconds counts %d; want 30", n)
	}
}

// The table of queues counts a job in the queue that the list shows for it.
func TestC5_QueuesCountTheirOwnJobs(t *testing.T) {
	s := newShop(t)
	file := filepath.Join(t.TempDir(), "weir.yaml")
	config(t, file, s.URL, "listen: [{address: '127.0.0.1:0'}]\nadmin: {address: '127.0.0.1:0'}\n"+
		"routes: [{name: all, async: {}}]\njobs: {dir: jobs}")
	p := start(t, "--config", file)
	result(t, p.listen[0], later(t, p.listen[0]+"/report/0", "Idempotency-Key: zero"))
	for i := range 2 {
		result(t, p.listen[0], later(t, p.listen[0]+fmt.Sprint("/report/", 1+i)))
	}
	var page struct {
		Jobs []struct{ Queue, State string }
	}
	if err := json.Unmarshal([]byte(get(p.admin+"/console/api/jobs").body), &page); err != nil || len(page.Jobs) != 3 {
		t.Fatalf("the list has %+v, %v; want three jobs", page, err)
	}
	want := map[string]uint64{}
	for _, j := range page.Jobs {
		want[j.Queue]++
	}
	if len(want) != 2 {
		t.Fatalf("the jobs are in %v; want one in a separate queue", want)
	}
	until(t, "each queue to count its own jobs", func() bool {
		got := map[string]uint64{}
		for _, q := range snapshot(t, p).Queues {
			if q.Done > 0 {
				got[q.Name] = q.Done
			}
		}
		return maps.Equal(got, want)
	})
	p.signal(syscall.SIGTERM)
	p.ends(0)
}

func TestBrowsersAreLedToTheConsole(t *testing.T) {
	p := start(t, "--upstream", newLibrary(t).URL, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	if line := p.await(`"msg":"ready"`, 1); !strings.Contains(line, `"console":"`+p.admin+`/console/"`) {
		t.Errorf("the line at startup is %s; want the console's URL", line)
	}
	a, h := speak(t, "GET", p.admin+"/", "", "Accept: text/html,*/*;q=0.8")
	if a.status != 302 || h.Get("Location") != "/console/" {
		t.Errorf("a browser gets %d to %q; want 302 to /console/", a.status, h.Get("Location"))
	}
	if a, _ := speak(t, "GET", p.admin+"/", "", "Accept: */*"); a.status != 200 || !strings.Contains(a.body, "GET  /console/") || !strings.Contains(a.body, "GET  /metrics") {
		t.Errorf("curl gets %+v; want the index", a)
	}
	a, h = speak(t, "GET", p.admin+"/console/", "")
	if a.status != 200 || !strings.Contains(a.body, "<html") || !strings.Contains(h.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("the console is %d %.80q with %v; want the page and its policy", a.status, a.body, h)
	}
	// The page uses the operators' endpoints for purges and explanations.
	if a, _ := speak(t, "POST", p.admin+"/console/api/purge", `{"all": true}`); a.status != 200 || !strings.Contains(a.body, `"responses"`) {
		t.Errorf("a purge from the console = %+v", a)
	}
	if a, _ := speak(t, "POST", p.admin+"/console/api/explain", `{"url": "http://a/"}`); a.status != 200 || !strings.Contains(a.body, `"route": "default"`) {
		t.Errorf("an explanation in the console = %+v", a)
	}
	if a, _ := speak(t, "POST", p.admin+"/console/api/purge", `{"all": true}`, "Sec-Fetch-Site: cross-site"); a.status != 403 {
		t.Errorf("a purge from another site's page = %+v; want 403", a)
	}
}

// An eventStream is an open stream of the console's events.
type eventStream struct {
	lines *bufio.Scanner
	body  io.Closer
}

func openEvents(t *testing.T, p *process, fields ...string) *eventStream {
	t.Helper()
	r, err := http.NewRequest("GET", p.admin+"/console/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		r.Header.Set(name, value)
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != 200 {
		t.Fatalf("the events are %d", resp.StatusCode)
	}
	s := &eventStream{bufio.NewScanner(resp.Body), resp.Body}
	s.lines.Buffer(nil, 16<<20)
	return s
}

// next returns the data of the next event with this name, "" at the end of the stream.
func (s *eventStream) next(name string) string {
	for s.lines.Scan() {
		if s.lines.Text() == "event: "+name && s.lines.Scan() {
			return strings.TrimPrefix(s.lines.Text(), "data: ")
		}
	}
	return ""
}

func TestC2_LoginCookieEvents(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "weir.yaml")
	const listeners = "listen: [{address: '127.0.0.1:0'}]\n"
	admin := func(more string) string {
		return listeners + "admin: {address: '127.0.0.1:0', token_file: '" + token + "'" + more + "}"
	}
	origin := newLibrary(t).URL
	config(t, file, origin, admin(""))
	p := start(t, "--config", file)
	for _, path := range []string{"/metrics", "/console/api/snapshot", "/console/events", "/stats"} {
		if a, _ := speak(t, "GET", p.admin+path, ""); a.status != 401 {
			t.Errorf("GET %s without the token = %d; want 401", path, a.status)
		}
		if a, _ := speak(t, "GET", p.admin+path+"?token=0123456789abcdef", ""); a.status != 401 {
			t.Errorf("GET %s with the token in the URL = %d; want 401", path, a.status)
		}
	}
	if a, _ := speak(t, "GET", p.admin+"/metrics", "", "Authorization: Bearer 0123456789abcdef"); a.status != 200 {
		t.Errorf("/metrics with the token = %d; want 200", a.status)
	}
	if a, h := speak(t, "POST", p.admin+"/console/login", `{"token": "fedcba9876543210"}`, "Content-Type: application/json"); a.status < 400 || h.Get("Set-Cookie") != "" {
		t.Errorf("a login with a wrong token = %d, cookie %q", a.status, h.Get("Set-Cookie"))
	}
	a, h := speak(t, "POST", p.admin+"/console/login", `{"token": "0123456789abcdef"}`, "Content-Type: application/json")
	cookie, attributes, _ := strings.Cut(h.Get("Set-Cookie"), ";")
	if a.status >= 400 || !strings.Contains(attributes, "HttpOnly") || !strings.Contains(attributes, "SameSite=Strict") || strings.Contains(cookie, "0123456789abcdef") {
		t.Fatalf("the login = %+v, cookie %q", a, h.Get("Set-Cookie"))
	}
	s := openEvents(t, p, "Cookie: "+cookie)
	if hello := s.next("hello"); !strings.Contains(hello, `"default"`) {
		t.Errorf("the first event is %.200q; want a hello with the route", hello)
	}
	if tick := s.next("tick"); tick == "" {
		t.Error("got no tick")
	}
	// A session survives a reload, also one that changes the admin listener.
	for i, more := range []string{"", ", allowed_hosts: [weir.example]", ", show_keys: true"} {
		config(t, file, origin, admin(more))
		p.signal(syscall.SIGHUP)
		p.await(`"msg":"reloaded"`, i+1)
		if a, _ := speak(t, "GET", p.admin+"/console/api/snapshot", "", "Cookie: "+cookie); a.status != 200 {
			t.Errorf("after reload %d with %q the cookie gets status %d; want 200", i+1, more, a.status)
		}
	}
	// After the token changes, clients that logged in with the old one see nothing any
	// more.
	watching := []*eventStream{openEvents(t, p, "Cookie: "+cookie), openEvents(t, p, "Authorization: Bearer 0123456789abcdef")}
	if err := os.WriteFile(token, []byte("fedcba9876543210\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.signal(syscall.SIGHUP)
	p.await(`"msg":"reloaded"`, 4)
	for _, s := range watching {
		for s.next("tick") != "" { // until its end
		}
	}
	for _, field := range []string{"Cookie: " + cookie, "Authorization: Bearer 0123456789abcdef"} {
		if a, _ := speak(t, "GET", p.admin+"/console/api/snapshot", "", field); a.status != 401 {
			t.Errorf("after the token has changed %s gets %d; want 401", field, a.status)
		}
	}
}

// Reloads add and remove routes. The console keeps its streams and its history.
func TestC6_ConsoleOutlivesReloads(t *testing.T) {
	file, origin := filepath.Join(t.TempDir(), "weir.yaml"), newLibrary(t).URL
	const listeners = "listen: [{address: '127.0.0.1:0'}]\nadmin: {address: '127.0.0.1:0'}\n"
	config(t, file, origin, listeners+"routes: [{name: one}, {name: gone, path: /gone}]")
	p := start(t, "--config", file)
	get(p.listen[0] + "/a")
	s := openEvents(t, p)
	type hello struct {
		Features struct{ Hot, Purge, Explain, Routes, Keys, Jobs, Fleet bool }
		Total    map[string][]any
		Units    map[string]map[string][]any
	}
	var first hello
	if err := json.Unmarshal([]byte(s.next("hello")), &first); err != nil || len(first.Units) != 2 {
		t.Fatalf("hello = %+v, %v; want two units", first, err)
	}
	if f := first.Features; !f.Hot || !f.Purge || !f.Explain || !f.Routes || f.Keys || f.Jobs || f.Fleet {
		t.Errorf("features = %+v; want hot keys, purge and explain of routes", f)
	}
	for i := range 3 {
		config(t, file, origin, listeners+fmt.Sprintf("routes: [{name: one}, {name: new%d, path: /new, hot_keys: %d}]", i, i))
		p.signal(syscall.SIGHUP)
		p.await(`"msg":"reloaded"`, i+1)
	}
	var names []string
	until(t, "the new routes", func() bool {
		var tick struct{ Snapshot shown }
		if err := json.Unmarshal([]byte(s.next("tick")), &tick); err != nil {
			t.Fatalf("the stream has ended, or an event is malformed: %v", err)
		}
		names = nil
		for _, u := range tick.Snapshot.Units {
			names = append(names, u.Name)
		}
		return reflect.DeepEqual(names, []string{"new2", "one"})
	})
	var again hello
	if err := json.Unmarshal([]byte(openEvents(t, p).next("hello")), &again); err != nil {
		t.Fatal(err)
	}
	if now, was := len(again.Units["one"]["t"]), len(first.Units["one"]["t"]); now <= was {
		t.Errorf("the history of a route has %d points after reloads, and had %d before; want more", now, was)
	}
	if u := snapshot(t, p).Units; u[1].Requests != 1 {
		t.Errorf("after reloads the units are %+v; want one request of route one", u)
	}
	// Each route has its own hot_keys.
	for route, want := range map[string]string{"one": `"enabled":true`, "new2": `"enabled":true`, "gone": "error"} {
		if a := get(p.admin + "/console/api/hot?unit=" + route); !strings.Contains(a.body, want) {
			t.Errorf("the hot keys of %s are %+v; want %s", route, a, want)
		}
	}
	config(t, file, origin, listeners+"routes: [{name: one, hot_keys: 0}]")
	p.signal(syscall.SIGHUP)
	p.await(`"msg":"reloaded"`, 4)
	if a := get(p.admin + "/console/api/hot?unit=one"); !strings.Contains(a.body, `"enabled":false`) {
		t.Errorf("with hot_keys: 0 the hot keys are %+v; want them disabled", a)
	}
	// The console can be disabled.
	config(t, file, origin, "listen: [{address: '127.0.0.1:0'}]\nadmin: {address: '127.0.0.1:0', console: false}")
	p.signal(syscall.SIGHUP)
	p.await(`"msg":"reloaded"`, 5)
	if a := get(p.admin + "/console/"); a.status != 404 {
		t.Errorf("with console: false the console gets %d; want 404", a.status)
	}
	for s.next("tick") != "" { // until its end
	}
}

// An open event stream delays neither the end of the program nor the move of a
// listener.
func TestC6_StreamsDoNotHoldUpTheDrain(t *testing.T) {
	file, origin := filepath.Join(t.TempDir(), "weir.yaml"), newLibrary(t).URL
	config(t, file, origin, "listen: [{address: '127.0.0.1:0'}]\nadmin: {address: '"+free(t)+"'}\ndrain: {timeout: 10m}")
	p := start(t, "--config", file)
	old := openEvents(t, p)
	old.next("hello")
	next := free(t)
	config(t, file, origin, "listen: [{address: '127.0.0.1:0'}]\nadmin: {address: '"+next+"'}\ndrain: {timeout: 10m}")
	p.signal(syscall.SIGHUP)
	p.await(`"msg":"reloaded"`, 1)
	for old.next("tick") != "" { // until its end
	}
	p.admin = "http://" + next
	s := openEvents(t, p)
	s.next("hello")
	p.signal(syscall.SIGTERM)
	p.ends(0) // otherwise it would wait until the drain timeout, which is far longer than our patience
	for s.next("tick") != "" {
	}
}

// The contents of clients' requests are secret. They appear in no response of the
// console, no metric and no log, unless show_keys is set.
func TestC4_NoKeyIsShown(t *testing.T) {
	const secret = "sesame8472"
	o := newOrigin(t, "origin")
	for _, keys := range []bool{false, true} {
		file := filepath.Join(t.TempDir(), "weir.yaml")
		config(t, file, o.URL, fmt.Sprintf("listen: [{address: '127.0.0.1:0'}]\nadmin: {address: '127.0.0.1:0', show_keys: %v}\n"+
			"log: {slow: 1h}\n"+ // the access log contains everything about a slow request
			"routes: [{name: all, cache: {ttl: 1m, force: true}}]", keys))
		p := start(t, "--config", file)
		for range 5 {
			speak(t, "GET", p.listen[0]+"/a?token="+secret, "", "X-Key: "+secret, "Cookie: a="+secret)
			speak(t, "POST", p.listen[0]+"/b?token="+secret, secret)
		}
		ctx := going(p.listen[0] + "/wait?token=" + secret)
		<-o.came
		var all []string
		for _, path := range []string{
			"/console/", "/console/api/snapshot", "/console/api/units/all", "/console/api/hot?unit=all&n=100", "/console/api/jobs", "/console/api/fleet", "/metrics", "/stats",
		} {
			all = append(all, path+": "+get(p.admin+path).body)
		}
		s := openEvents(t, p)
		all = append(all, s.next("hello"), s.next("tick"), p.stderr())
		found := 0
		for _, text := range all {
			if strings.Contains(text, secret) {
				found++
				if !keys {
					t.Errorf("the secret is in %.2000s", text)
				}
			}
		}
		if keys && found != 2 {
			t.Errorf("with show_keys the secret is in %d responses; want 2, the flights and the hot keys", found)
		}
		if a := get(p.admin + "/console/api/units/all"); !strings.Contains(a.body, `"state":"running"`) {
			t.Errorf("the route is %+v; want its flight", a)
		}
		o.may <- struct{}{}
		<-ctx
		p.signal(syscall.SIGTERM)
		p.ends(0)
	}
}

// Nor do the contents of a request that became a job, or its owner. "weir jobs" shows
// them.
func TestC4_NoKeyOfAJobIsShown(t *testing.T) {
	const secret = "sesame8472"
	s := newShop(t)
	for _, keys := range []bool{false, true} {
		file := filepath.Join(t.TempDir(), "weir.yaml")
		config(t, file, s.URL, fmt.Sprintf("listen: [{address: '127.0.0.1:0'}]\nadmin: {address: '127.0.0.1:0', show_keys: %v}\n"+
			"routes: [{name: all, async: {}}]\njobs: {dir: jobs}", keys))
		p := start(t, "--config", file)
		path := later(t, p.listen[0]+"/report?token="+secret, "Idempotency-Key: "+secret, "Authorization: Bearer "+secret)
		result(t, p.listen[0], path)
		var page struct {
			Jobs []struct{ ID, Queue, Key, Owner string }
		}
		if err := json.Unmarshal([]byte(get(p.admin+"/jobs").body), &page); err != nil || len(page.Jobs) != 1 || page.Jobs[0].Key == "" || page.Jobs[0].Owner == "" {
			t.Fatalf("/jobs has %+v, %v; want the job with its key and owner", page, err)
		}
		j := page.Jobs[0]
		for _, path := range []string{"/jobs", "/jobs?queue=" + j.Queue, "/jobs?id=" + j.ID, "/jobs/" + j.Queue + "/" + j.ID} {
			a := get(p.admin + "/console/api" + path)
			if a.status != 200 || !strings.Contains(a.body, j.ID) {
				t.Errorf("/console/api%s is %+v; want the job", path, a)
			}
			if !keys && (strings.Contains(a.body, secret) || strings.Contains(a.body, j.Owner) || strings.Contains(a.body, `"key"`)) {
				t.Errorf("/console/api%s shows the job's owner or key: %s", path, a.body)
			}
			if keys && !strings.Contains(a.body, `"owner": "`+j.Owner) {
				t.Errorf("with show_keys /console/api%s is %s; want the owner", path, a.body)
			}
		}
		p.signal(syscall.SIGTERM)
		p.ends(0)
	}
}
