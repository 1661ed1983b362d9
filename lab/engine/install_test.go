package engine_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/weir-go/weir/lab/engine"
)

func TestUnknownNamesTheKnown(t *testing.T) {
	_, start := engine.Start(t.Context(), "oracle")
	_, command := engine.Command(t.Context(), "oracle")
	for call, err := range map[string]error{
		"Start":     start,
		"Command":   command,
		"Installed": engine.Installed("oracle"),
		"Install":   engine.Install(t.Context(), io.Discard, "oracle"),
	} {
		if !errors.Is(err, engine.ErrUnknown) || !strings.Contains(err.Error(), "ab, caddy, cassandra, chromium, h2load, hey, nginx, node, npm, pgbouncer, pip, postgres, promtool, redis, valkey, varnish, wrk") {
			t.Errorf("%s(%q) = %v; want ErrUnknown and the names", call, "oracle", err)
		}
	}
}

func TestStartRefusesTools(t *testing.T) {
	for _, name := range engine.Names() {
		if engine.Startable(name) {
			continue
		}
		if _, err := engine.Start(t.Context(), name); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("Start(%q) = %v; want an error that names it", name, err)
		}
	}
}

func TestToolsRun(t *testing.T) {
	for name, args := range map[string][]string{
		"ab": {"-V"}, "wrk": {"-v"}, "hey": {"-h"}, "h2load": {"--help"}, "nginx": {"-v"}, "varnish": {"-V"}, "caddy": {"help"}, "redis": {"--help"},
		"promtool": {"--version"}, "node": {"--help"}, "npm": {"--help"}, "pgbouncer": {"--help"}, "pip": {"--help"},
	} {
		t.Run(name, func(t *testing.T) {
			need(t, name)
			cmd, err := engine.Command(t.Context(), name, args...)
			if err != nil {
				t.Fatal(err)
			}
			// wrk ends with 1 after -v, hey with 2 after -h.
			out, _ := cmd.CombinedOutput()
			if !strings.Contains(strings.ToLower(string(out)), "usage") && !strings.Contains(string(out), "ersion") && !strings.Contains(string(out), "(varnish-") {
				t.Errorf("%s %v printed %q; want its version or usage", name, args, out)
			}
		})
	}
}
