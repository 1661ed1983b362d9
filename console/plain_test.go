package console_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/console"
	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/inspect"
	"github.com/weir-go/weir/plain/plaintest"
)

// A purgingSource purges nothing, and returns an error.
type purgingSource struct {
	*source
	err error
}

func (p purgingSource) Abilities() console.Abilities {
	return console.Abilities{Purge: func(context.Context, string, []string, bool) (bool, error) { return true, p.err }}
}

// All responses escape invisible characters and hide passwords, and clients can
// decode the original values.
func TestH21_ConsoleHidesNothing(t *testing.T) {
	const secret = "http://user:secret@a.test/"
	for _, k := range plaintest.Kinds {
		name := "a" + k.Hidden + "b " + secret
		s := &source{}
		s.tell([]console.Unit{{Name: name}}, console.Limit{Name: name})
		s.now.Servers = []console.Server{{Upstream: name, URL: name}}
		s.now.Process = console.Process{State: name}
		s.detail = console.Detail{Unit: console.Unit{Name: "u", Limit: name}, Flights: []console.Flight{{Flight: inspect.Flight{Key: name}}}}
		s.hot = inspect.HotKeys{Window: time.Minute, ByTraffic: []inspect.HotKey{{Key: name}}}
		var log bytes.Buffer
		c := newConsole(t, console.Options{
			Source: purgingSource{s, errors.New(name)}, Title: name, ShowKeys: true, Self: "x",
			Roster: fleetOf(fleet.Instance{ID: "x", Name: name, Address: name, Version: name}),
			Logger: slog.New(slog.NewJSONHandler(&log, nil)),
		})
		look := func(where, text string) {
			t.Helper()
			if found := plaintest.Find(text); found != "" || strings.Contains(text, "secret") {
				t.Errorf("%s in %s: %q, found %q; want it escaped, without a password", k.Name, where, text, found)
			}
		}
		for _, ask := range []call{
			get("/api/snapshot"), get("/api/units/u"), get("/api/hot?unit=u"), get("/api/fleet"), get("/api/units/none" + "%E2%80%AE"),
			post("/api/purge", `{"unit": "u", "all": true}`), post("/api/purge", string(quoted(t, map[string]int{name: 1}))), get("/api/hot?unit=u&n=%E2%80%AE"),
		} {
			look(ask.method+" "+ask.target, ask.on(c).Body.String())
		}
		for _, key := range []string{into[console.Detail](t, get("/api/units/u").on(c)).Flights[0].Name, into[console.Hot](t, get("/api/hot?unit=u").on(c)).ByTraffic[0].Name} {
			if !strings.Contains(key, "a"+k.Shown+"b") {
				t.Errorf("%s: the key is %q; want the whole key, escaped", k.Name, key)
			}
		}
		look("the log", log.String())
		if !strings.Contains(log.String(), strings.ReplaceAll(k.Shown, `\`, `\\`)) {
			t.Errorf("%s: the log is %s; want it escaped", k.Name, log.String())
		}
		synctest.Test(t, func(t *testing.T) {
			c := newConsole(t, console.Options{Source: s, Title: name, ShowKeys: true})
			resp := open(t, serve(t, &http.Server{Handler: c}))
			for in, n := bufio.NewScanner(resp.Body), 0; n < 2 && in.Scan(); {
				if look("events", in.Text()); strings.HasPrefix(in.Text(), "data: ") {
					n++
				}
			}
		})
	}
}

func quoted(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
