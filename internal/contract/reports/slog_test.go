package reports_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/contract/rig"
)

// M3, O2: one line per event for operators, at its level, without key or value.
func TestM3SlogObserver(t *testing.T) {
	var buf bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&buf, &slog.HandlerOptions{Level: slog.LevelDebug}))
	gate := &rig.Gate{}
	o := weir.Options{
		Name: "books", TTL: 100 * sec, StaleIfError: 1000 * sec, StaleWhileRevalidate: 10 * sec, MaxWeight: 10,
		LoadTimeout: 20 * sec, Limiter: gate, Observer: weir.SlogObserver(logger),
	}
	const secret = "hunter2"
	rig.Play(t, o, func(s *rig.Scene) {
		step := func(what, level, msg string, do func()) {
			s.Helper()
			buf.Reset()
			do()
			synctest.Wait()
			out := buf.String()
			if !strings.Contains(out, "level="+level+" msg=\""+msg) || !strings.Contains(out, "guard=books") {
				s.Errorf("%s: logged %q; want level %s, %q and the guard", what, out, level, msg)
			}
			if strings.Contains(out, secret) || strings.Contains(out, "424242") {
				s.Errorf("%s: logged %q; want no key and no value", what, out)
			}
		}
		get := func() { s.Get(secret) }
		s.Says(weir.Entry[int]{Value: 424242}, nil)
		step("load", "DEBUG", "weir: loaded", get)
		step("hit", "DEBUG", "weir: loaded", func() {
			get()
			if buf.Len() > 0 {
				s.Errorf("a hit logged %q; want nothing", buf.String())
			}
			s.Get("other " + secret)
		})
		s.Until(105 * sec)
		gate.Shut.Store(true)
		step("refresh skipped", "INFO", "weir: refresh skipped", get)
		step("refused", "WARN", "weir: refused", func() { s.Get("new " + secret) })
		gate.Shut.Store(false)
		s.Until(200 * sec)
		s.Says(weir.Entry[int]{}, rig.ErrDown)
		step("failed", "WARN", "weir: load failed", get)
		step("stale on error", "INFO", "weir: stale on error", get)
		s.Says(weir.Entry[int]{}, weir.ErrNotFound)
		step("not found", "DEBUG", "weir: loaded", func() { s.Get("gone " + secret) })
		s.Says(weir.Entry[int]{Value: 424242, Weight: 11}, nil)
		step("too heavy", "WARN", "weir: too heavy", get)
		s.Set(time.Hour, nil)
		step("timed out", "WARN", "weir: timed out", get)
		step("abandoned", "INFO", "weir: abandoned", func() {
			ctx, cancel := context.WithTimeout(s.Context(), sec)
			defer cancel()
			s.G.Get(ctx, secret)
		})
		step("late", "WARN", "weir: load ended late", get)
	})
}

func TestM3SlogObserverLevels(t *testing.T) {
	var buf bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&buf, nil)) // from Info up
	rig.Play(t, weir.Options{Observer: weir.SlogObserver(logger)}, func(s *rig.Scene) {
		s.Get("k")
		synctest.Wait()
		if buf.Len() > 0 {
			s.Errorf("logged %q; want nothing below Info", buf.String())
		}
	})
}

// A failed bulk load is logged as such.
func TestM3SlogObserverBulk(t *testing.T) {
	var buf bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		g := weir.Must(weir.NewFrom(weir.Source[string, int]{LoadMany: func(context.Context, []string) (map[string]int, error) {
			return nil, rig.ErrDown
		}}, weir.Options{Observer: weir.SlogObserver(slog.New(slog.NewTextHandler(&buf, nil)))}))
		g.GetMany(t.Context(), []string{"a", "b"})
		synctest.Wait()
		if out := buf.String(); !strings.Contains(out, "weir: load failed") || !strings.Contains(out, "keys=2") {
			t.Errorf("logged %q; want a failed load of 2 keys", out)
		}
	})
}

func TestM3SlogObserverDefault(t *testing.T) {
	var buf bytes.Buffer
	old := slog.Default()
	defer slog.SetDefault(old)
	slog.SetDefault(slog.New(slog.NewTextHandler(&buf, nil)))
	rig.Play(t, weir.Options{Observer: weir.SlogObserver(nil)}, func(s *rig.Scene) {
		s.Set(0, rig.ErrDown)
		s.Get("k")
		synctest.Wait()
		if !strings.Contains(buf.String(), "weir: load failed") {
			s.Errorf("logged %q; want the failure, by slog.Default", buf.String())
		}
	})
}
