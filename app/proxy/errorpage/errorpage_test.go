package errorpage

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/weirhttp"
)

func parse(t testing.TB, kind Type, text string) *Template {
	t.Helper()
	page, err := Parse(kind, []byte(text))
	if err != nil {
		t.Fatalf("Parse(%q) = %v", text, err)
	}
	return page
}

// H27: Accept chooses the type, as RFC 9110 section 12.5.1 weighs it.
func TestH27_AcceptChoosesTheType(t *testing.T) {
	const htmlOnly, jsonOnly, both = 1, 2, 3
	for _, e := range []struct {
		accept string // lines
		have   int
		want   string
	}{
		{"", both, "json"}, {"", htmlOnly, "html"}, {"", 0, "plain"},
		{"*/*", both, "json"}, {"*/*", htmlOnly, "html"},
		{"text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8", both, "html"},
		{"text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8", jsonOnly, "json"},
		{"application/json", both, "json"}, {"application/json", htmlOnly, "plain"},
		{"text/html;q=0.1, application/json;q=0.2", both, "json"},
		{"text/html;q=0.2, application/json;q=0.1", both, "html"},
		{"text/*", both, "html"}, {"text/*;q=0.5, text/plain", both, "plain"},
		{"text/plain", both, "plain"}, {"image/png", both, "plain"},
		{"text/html;q=0", both, "plain"}, {"text/html;q=0, */*", both, "json"},
		{"*/*;q=0", both, "plain"}, {"*/*;q=0.1, application/*;q=0", both, "html"},
		{"TEXT/HTML; Q=1.000", both, "html"}, {"text/html;charset=UTF-8", both, "html"},
		{"text/html;level=1, application/json;q=0.1", both, "json"},
		{`text/html;x="a,b;q=0", application/json;q=0.1`, both, "json"},
		{"text/html;q=1.001, application/json;q=0.1", both, "json"},
		{"text/html;q=, application/json;q=0.1", both, "json"},
		{"text/html;q=0.0001, application/json;q=0.001", both, "json"},
		{"text/html;q=-1", both, "json"}, {"*/html", both, "json"}, {"html", both, "json"}, {",,;", both, "json"},
		{"text/html\napplication/json;q=0.5", both, "html"},
		{"application/problem+json", both, "plain"},
	} {
		p := &Pages{}
		if e.have&htmlOnly != 0 {
			p.Add(All, parse(t, HTML, "html"))
		}
		if e.have&jsonOnly != 0 {
			p.Add(All, parse(t, JSON, `"json"`))
		}
		r := httptest.NewRequest("GET", "/", nil)
		if e.accept != "" {
			r.Header["Accept"] = strings.Split(e.accept, "\n")
		}
		w := httptest.NewRecorder()
		weirhttp.ErrorResponse{Status: 502, Text: "plain"}.WriteWith(p.Handler(), w, r)
		if got := w.Body.String(); !strings.Contains(got, e.want) || w.Code != 502 {
			t.Errorf("Accept %q, pages %d: %d %q; want %s", e.accept, e.have, w.Code, got, e.want)
		}
		want := map[string]string{"json": "application/json", "html": "text/html; charset=utf-8", "plain": "text/plain; charset=utf-8"}[e.want]
		if got := w.Header().Get("Content-Type"); got != want {
			t.Errorf("Accept %q: Content-Type %q; want %q", e.accept, got, want)
		}
		if got := w.Header().Get("Content-Length"); got != strconv.Itoa(w.Body.Len()) {
			t.Errorf("Accept %q: Content-Length %q of %d bytes", e.accept, got, w.Body.Len())
		}
	}
}

// A page of the status wins over that of its class, and that over the one for all.
func TestH27_StatusChoosesThePage(t *testing.T) {
	p := &Pages{}
	for status, text := range map[int]string{429: "429", 4: "4xx", 5: "5xx", All: "all"} {
		if !p.Add(status, parse(t, HTML, text)) {
			t.Errorf("Add(%d) = false", status)
		}
	}
	if p.Add(429, parse(t, HTML, "again")) || !p.Add(429, parse(t, JSON, "1")) {
		t.Error("Add allows two pages of one type, or forbids two types")
	}
	for status, want := range map[int]string{429: "429", 404: "4xx", 508: "5xx", 600: "all"} {
		if got := p.find(status, HTML).render(values{}); got != want {
			t.Errorf("find(%d) = %q; want %q", status, got, want)
		}
	}
	if (&Pages{}).Handler() != nil {
		t.Error("Handler() without pages is not nil")
	}
}

// A page contains nothing of the request except a request ID of harmless characters, and
// HEAD returns the length of the page.
func TestH27_NothingOfTheRequestIsInAPage(t *testing.T) {
	const page = `<p title="{{message}}">{{ status }} {{reason}} {{retry_after}} {{request_id}}</p>`
	p := &Pages{}
	p.Add(All, parse(t, HTML, page))
	for id, want := range map[string]string{
		"0af7651916cd43dd": "0af7651916cd43dd", "Root=1-67891233-abcdef012345678912345678": "Root=1-67891233-abcdef012345678912345678",
		"": "", "<script>": "", `"onload="x`: "", "a\\": "", "a b": "", "é": "", strings.Repeat("a", 129): "", "{{status}}": "",
	} {
		r := httptest.NewRequest("GET", "/<script>?<script>", nil)
		r.Host, r.Header["X-Request-Id"] = "<script>", []string{id}
		r.Header["User-Agent"], r.Header["Accept"] = []string{"<script>"}, []string{"text/html, <script>/*"}
		e := weirhttp.ErrorResponse{Status: 503, RetryAfter: 1500 * time.Millisecond, ProxyStatus: "weir; error=x", Text: `"a" & <b>`}
		w := httptest.NewRecorder()
		e.WriteWith(p.Handler(), w, r)
		if got := w.Body.String(); got != `<p title="&#34;a&#34; &amp; &lt;b&gt;">503 Service Unavailable 2 `+want+`</p>` {
			t.Errorf("ID %q: %q", id, got)
		}
		h := w.Header()
		if h.Get("Retry-After") != "2" || h.Get("Proxy-Status") != "weir; error=x" || h.Get("Cache-Control") != "no-store" || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Vary") != "Accept" {
			t.Errorf("ID %q: the fields are %v", id, h)
		}
		r.Method = "HEAD"
		head := httptest.NewRecorder()
		e.WriteWith(p.Handler(), head, r)
		if head.Body.Len() != 0 || head.Header().Get("Content-Length") != h.Get("Content-Length") || head.Code != 503 {
			t.Errorf("HEAD = %d, %d bytes, length %q; want 503, none, %q", head.Code, head.Body.Len(), head.Header().Get("Content-Length"), h.Get("Content-Length"))
		}
	}
	r := httptest.NewRequest("GET", "/", nil)
	r.Header["X-Request-Id"] = []string{"a", "b"}
	if got := requestID(r); got != "" {
		t.Errorf("two IDs gave %q; want none", got)
	}
}

func TestH27_BadPages(t *testing.T) {
	for text, want := range map[string]string{
		"{{path}}": "unknown placeholder on line 1", "a\nb{{host}}": "line 2", "{{status": "unknown placeholder", "\xff": "UTF-8",
		strings.Repeat("x", MaxBytes+1): "larger than 64KiB",
	} {
		if _, err := Parse(HTML, []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%.20q) = %v; want %q", text, err, want)
		}
	}
	for text, good := range map[string]bool{
		`{"status": {{status}}, "after": {{retry_after}}, "id": "{{request_id}}", "m": "{{message}}"}`: true,
		`{"m": {{message}}}`: false, `{"id": {{request_id}}}`: false, `{`: false, ``: false, "\uFEFF{}": true,
	} {
		if _, err := Parse(JSON, []byte(text)); (err == nil) != good {
			t.Errorf("Parse(%q) = %v; want valid %v", text, err, good)
		}
	}
}

// Whatever Accept says, the response is one of the three, whole, and as it says.
// H27: a page says when to try again only if there is a time.
func TestH27_SectionsNeedAValue(t *testing.T) {
	const page = "a{{#retry_after}} in {{retry_after}} s{{/retry_after}}{{#request_id}} ({{request_id}}){{/request_id}} z"
	for _, e := range []struct {
		page string
		v    values
		want string
	}{
		{page, values{}, "a z"},
		{page, values{retryAfter: 7}, "a in 7 s z"},
		{page, values{retryAfter: 7, requestID: "x"}, "a in 7 s (x) z"},
		{page, values{requestID: "0"}, "a z"},
		{"{{#retry_after}}{{message}}{{/retry_after}}", values{message: "m"}, ""},
	} {
		if got := parse(t, HTML, e.page).render(e.v); got != e.want {
			t.Errorf("%q with %+v = %q; want %q", e.page, e.v, got, e.want)
		}
	}
	for text, want := range map[string]string{
		"{{#retry_after}}": "{{#retry_after}} without {{/retry_after}}", "\n{{/retry_after}}": "{{/retry_after}} on line 2",
		"{{#message}}{{#retry_after}}{{/retry_after}}{{/message}}": "sections do not nest",
		"{{#message}}{{/retry_after}}":                             "{{/retry_after}} on line 1", "{{#path}}{{/path}}": "unknown placeholder",
	} {
		if _, err := Parse(HTML, []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q) = %v; want %q", text, err, want)
		}
	}
	for text, good := range map[string]bool{
		`{"a": 1{{#retry_after}}, "after": {{retry_after}}{{/retry_after}}}`: true,
		`{"a": 1, {{#retry_after}}"after": {{retry_after}}{{/retry_after}}}`: false,
	} {
		if _, err := Parse(JSON, []byte(text)); (err == nil) != good {
			t.Errorf("Parse(%q) = %v; want valid %v", text, err, good)
		}
	}
}

func FuzzAccept(f *testing.F) {
	for _, s := range []string{"", "*/*", `a/b;c="d,e;q=1"`, "text/html;q=0.5,application/*", "\"", "a/b;q=0.\\"} {
		f.Add(s, "x", "y")
	}
	page, doc := parse(f, HTML, "<p>{{message}}{{request_id}}</p>"), parse(f, JSON, `{"m":"{{message}}{{request_id}}"}`)
	f.Fuzz(func(t *testing.T, accept, message, id string) {
		p := &Pages{}
		p.Add(All, page)
		p.Add(All, doc)
		r := &http.Request{Method: "GET", Header: http.Header{"Accept": {accept}, "X-Request-Id": {id}}}
		w := httptest.NewRecorder()
		weirhttp.ErrorResponse{Status: 502, Text: message}.WriteWith(p.Handler(), w, r)
		if w.Header().Get("Content-Length") != strconv.Itoa(w.Body.Len()) {
			t.Errorf("Content-Length %s of %d bytes", w.Header().Get("Content-Length"), w.Body.Len())
		}
		switch w.Header().Get("Content-Type") {
		case "application/json":
			if !json.Valid(w.Body.Bytes()) {
				t.Errorf("not JSON: %q", w.Body)
			}
		case "text/html; charset=utf-8":
			if want := fmt.Sprintf("<p>%s%s</p>", html.EscapeString(message), requestID(r)); w.Body.String() != want {
				t.Errorf("%q; want %q", w.Body, want)
			}
		case "text/plain; charset=utf-8":
		default:
			t.Errorf("Content-Type %q", w.Header().Get("Content-Type"))
		}
	})
}
