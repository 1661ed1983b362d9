package weirhttp_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirhttp"
)

// C4, C9: a line for each event that an operator needs, at its level, which contains
// neither the URL nor a field of the request.
func TestC9_SlogObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		one, err := limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 1, Queue: -1})
		if err != nil {
			t.Fatal(err)
		}
		answer := func(w http.ResponseWriter) {
			w.Header().Set("Cache-Control", "max-age=10, stale-if-error=3600")
			_, _ = io.WriteString(w, "42")
		}
		s := open(t, h1, weirhttp.Options{Route: "shop", Limiter: one, Observer: weirhttp.SlogObserver(logger)},
			func(w http.ResponseWriter, _ *http.Request) { answer(w) })
		step := func(what, level, msg string, do func()) {
			t.Helper()
			log.Reset()
			do()
			time.Sleep(time.Second)
			synctest.Wait()
			want := "level=" + level + ` msg="weirhttp: ` + msg
			said := false
			for line := range strings.Lines(log.String()) {
				said = said || strings.Contains(line, want) && strings.Contains(line, "route=shop")
			}
			if !said || strings.Contains(log.String(), "hunter2") {
				t.Errorf("%s: logged %q; want %s with the route, and nothing of the URL", what, log.String(), want)
			}
		}
		step("call", "DEBUG", "called", func() { s.get("/x?token=hunter2") })
		log.Reset()
		if s.get("/x?token=hunter2"); log.Len() > 0 {
			t.Errorf("a hit logged %q; want nothing", log.String())
		}
		answer = func(w http.ResponseWriter) { http.Error(w, "down", http.StatusServiceUnavailable) }
		step("5xx", "WARN", "call failed", func() { s.get("/y?token=hunter2") })
		time.Sleep(time.Minute)
		step("stale", "INFO", "stale answer", func() { s.get("/x?token=hunter2") })
		answer = func(http.ResponseWriter) { panic("boom") }
		step("panic", "ERROR", "panicked", func() { s.get("/z?token=hunter2") })
		answer = func(http.ResponseWriter) { time.Sleep(time.Second) }
		step("refused", "WARN", "refused", func() {
			go s.get("/slow?token=hunter2")
			synctest.Wait()
			s.get("/other?token=hunter2")
		})
	})
}
