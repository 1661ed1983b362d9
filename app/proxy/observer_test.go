package proxy

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weir-go/weir/once"
	"github.com/weir-go/weir/weirhttp"
)

func TestH22_WhatDiffersIsLogged(t *testing.T) {
	var out bytes.Buffer
	o := newObserver(slog.New(slog.NewTextHandler(&out, nil)), true)
	r := httptest.NewRequest("GET", "http://shop.example/a?token=secret", nil)
	for range 100 {
		o.Event(t.Context(), weirhttp.Event{Kind: weirhttp.EventDiffered, Request: r, Status: 200})
	}
	o.Event(t.Context(), weirhttp.Event{Kind: weirhttp.EventFailed, Request: r}) // already in the access log
	lines := strings.Count(out.String(), "\n")
	if lines < 1 || lines > 2*eventsPerSecond {
		t.Errorf("%d lines for 100 events; want about %d", lines, eventsPerSecond)
	}
	if s := out.String(); !strings.Contains(s, "target=/a ") || !strings.Contains(s, "host=shop.example") || strings.Contains(s, "secret") {
		t.Errorf("the log is %s; want host and path, but no query", s)
	}
}

func TestH45_AnUnknownOutcomeIsLogged(t *testing.T) {
	var out bytes.Buffer
	o := newObserver(slog.New(slog.NewTextHandler(&out, nil)), true)
	for range 100 {
		o.Event(t.Context(), weirhttp.Event{Kind: weirhttp.EventUnknown, Route: "pay", Err: &weirhttp.UnknownOutcomeError{
			ID: once.Sum("key"), Call: "POST /payments", Reason: "no complete response", Err: errors.New("disk full"),
		}})
	}
	if lines := strings.Count(out.String(), "\n"); lines < 1 || lines > 2*eventsPerSecond {
		t.Errorf("%d lines for 100 events; want about %d", lines, eventsPerSecond)
	}
	for _, want := range []string{"level=WARN", "route=pay", `call="POST /payments"`, `reason="no complete response"`, `error="disk full"`, "id=" + once.Sum("key").String()[:12] + " "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the log is %s; want %s", out.String(), want)
		}
	}
}

func TestH4_AClientThatIsCutOffIsLogged(t *testing.T) {
	var out bytes.Buffer
	o := newObserver(slog.New(slog.NewTextHandler(&out, nil)), true)
	r := httptest.NewRequest("GET", "http://shop.example/film?token=secret", nil)
	for range 100 {
		o.Event(t.Context(), weirhttp.Event{Kind: weirhttp.EventLagged, Route: "films", Request: r, Err: errors.New("no range")})
	}
	if lines := strings.Count(out.String(), "\n"); lines < 1 || lines > 2*eventsPerSecond {
		t.Errorf("%d lines for 100 events; want about %d", lines, eventsPerSecond)
	}
	for _, want := range []string{"level=WARN", "route=films", "target=/film ", `error="no range"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the log is %s; want %s", out.String(), want)
		}
	}
	if strings.Contains(out.String(), "secret") {
		t.Error("the log has the query")
	}
}
