package admin_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/weir-go/weir/app/proxy/admin"
	"github.com/weir-go/weir/plain/plaintest"
	"github.com/weir-go/weir/weirhttp"
)

// A talker explains with what it was given.
type talker struct {
	*fake
	text string
}

func (f talker) Explain(r *http.Request) (string, weirhttp.Explanation) {
	return f.text, weirhttp.Explanation{
		Method: r.Method, Key: f.text, Answer: "hit", Steps: []string{f.text},
		Stored: []weirhttp.StoredState{{Vary: []string{f.text}, Tags: []string{f.text}}},
	}
}

// No response to operators hides anything or has a password, and everything
// requested is there.
func TestH20_AnswersToOperatorsHideNothing(t *testing.T) {
	for _, k := range plaintest.Kinds {
		text := "a" + k.Hidden + "b http://user:secret@a.test/"
		var log bytes.Buffer
		h := admin.New(talker{newFake(t), text}, admin.Options{
			Ready: func() error { return errors.New(text) }, Process: func() any { return map[string]string{text: text} },
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		encoded, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		body := string(encoded)
		for _, c := range []call{
			get("/readyz"), get("/stats"), get("/explain?url=http://a.test/"), get("/jobs"), get("/jobs?" + url.QueryEscape(text) + "=1"),
			get("/explain?url=http://a.test/&method=" + url.QueryEscape(text)), get("/explain?url=" + url.QueryEscape(text)),
			get("/explain?url=" + url.QueryEscape("http://user:secret@a.test"+k.Hidden)), get("/explain?url=" + url.QueryEscape("http://user:secret/cret@a.test")),
			get("/explain?url=" + url.QueryEscape("redis://:secret@a.test")),
			post("/purge", "{"+body+": 1}"), post("/purge", `{"tags": [`+body+`]}`), post("/purge", `{"url": `+body+`}`),
			post("/explain", `{"url": "http://a.test/", "headers": {"Host": `+body+`}}`), post("/explain", body),
		} {
			got := c.on(h).Body.String()
			if found := plaintest.Find(got); found != "" || strings.Contains(got, "secret") || strings.Contains(got, "cret") {
				t.Errorf("%s: %s %s %s answers %q, found %q; want it escaped, and no password", k.Name, c.method, c.target, c.body, got, found)
			}
		}
		if got := get("/readyz").on(h).Body.String(); !strings.Contains(got, "a"+k.Shown+"b") {
			t.Errorf("%s: /readyz is %q; want %q in it", k.Name, got, "a"+k.Shown+"b")
		}
		var e weirhttp.Explanation
		got := get("/explain?url=http://a.test/").on(h).Body.Bytes()
		if err := json.Unmarshal(got, &e); err != nil || utf8.ValidString(text) && e.Key != "a"+k.Hidden+"b http://…@a.test/" {
			t.Errorf("%s: explain answers %s, %v; want programs to read the key as it is", k.Name, got, err)
		}
		if found := plaintest.Find(log.String()); found != "" || strings.Contains(log.String(), "secret") {
			t.Errorf("%s: the log is %q, found %q", k.Name, log.String(), found)
		}
	}
}
