package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"testing"

	"github.com/weir-go/weir/lab/engine"
	"github.com/weir-go/weir/lab/inserts"
)

func TestUsage(t *testing.T) {
	for _, args := range [][]string{
		{"--callers", "12,none"},
		{"--callers", "0"},
		{"--callers", "1001"},
		{"--seconds", "0"},
		{"--seconds", "NaN"},
		{"--connections", "0"},
		{"--rounds", "0"},
		{"more"},
		{"--no-such-flag"},
	} {
		if err := run(t.Context(), args, new(bytes.Buffer)); !errors.Is(err, errUsage) {
			t.Errorf("run(%q) = %v; want wrong usage", args, err)
		}
	}
}

// The command starts a durable server, and measures the requested numbers of callers.
func TestRun(t *testing.T) {
	if err := engine.Installed("postgres"); err != nil {
		if os.Getenv("WEIR_TEST_ENGINES") == "required" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	var out bytes.Buffer
	if err := run(t.Context(), []string{"--seconds", "0.1", "--callers", "120", "--json"}, &out); err != nil {
		t.Fatal(err)
	}
	var rep inserts.Report
	if err := json.Unmarshal(out.Bytes(), &rep); err != nil {
		t.Fatal(err)
	}
	if rep.Fsync != "on" || rep.SyncCommit != "on" || len(rep.Measurements) != 4 {
		t.Errorf("fsync %s, synchronous_commit %s, %d measurements; want on, on, 4", rep.Fsync, rep.SyncCommit, len(rep.Measurements))
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(ctx, nil, new(bytes.Buffer)); err == nil {
		t.Error("run with an ended context succeeded")
	}
}
