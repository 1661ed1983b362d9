package main

import "testing"

// Skipped tests are named, and a run without any test is an error.
func TestRanAll(t *testing.T) {
	const pass, skip = "--- PASS: TestA (0.1s)\n    --- PASS: TestA/upgrade (0.1s)\n", "--- SKIP: TestB (0.00s)\n    --- SKIP: TestC/upgrade (0.00s)\n"
	for _, tt := range []struct {
		out, note string
		fails     bool
	}{
		{"=== RUN TestA\n" + pass + "PASS\n", "", false},
		{pass + skip, "skipped TestB, TestC/upgrade", false},
		{skip, "", true},
		{"testing: warning: no tests to run\nPASS\n", "", true},
	} {
		if note, err := ranAll(tt.out); note != tt.note || (err != nil) != tt.fails {
			t.Errorf("ranAll(%q) = %q, %v; want %q, and an error: %v", tt.out, note, err, tt.note, tt.fails)
		}
	}
}
