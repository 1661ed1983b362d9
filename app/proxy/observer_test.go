package proxy

import (
	"bytes"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

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
