package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// A meter collects what a step's commands print and use.
type meter struct {
	mu       sync.Mutex
	text     bytes.Buffer  // guarded by mu; at most maxText
	dropped  int           // guarded by mu; bytes that did not fit
	cpu      time.Duration // guarded by mu; of all commands and their children
	compile  time.Duration // guarded by mu; the part of cpu that compiled and linked
	tests    counts        // guarded by mu
	failures []failure     // guarded by mu
	without  []string      // guarded by mu; those of them that name what the machine lacks
	took     []packageTime // guarded by mu
	doing    string        // guarded by mu; for progress
}

// maxText bounds the output that is kept of a step.
const maxText = 8 << 20

type meterKey struct{}

func withMeter(ctx context.Context, m *meter) context.Context {
	return context.WithValue(ctx, meterKey{}, m)
}

// meterOf returns the meter of the step that runs with ctx.
func meterOf(ctx context.Context) *meter {
	if m, ok := ctx.Value(meterKey{}).(*meter); ok {
		return m
	}
	return new(meter)
}

// Write keeps output of the step. It is shown if the step fails.
func (m *meter) Write(b []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	room := max(maxText-m.text.Len(), 0)
	m.text.Write(b[:min(room, len(b))])
	m.dropped += len(b) - min(room, len(b))
	return len(b), nil
}

func (m *meter) output() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dropped > 0 {
		return fmt.Sprintf("%s\n(%d more bytes)", m.text.String(), m.dropped)
	}
	return m.text.String()
}

// used adds what an ended process and its children used.
func (m *meter) used(p *os.ProcessState) {
	if p == nil {
		return // it did not start
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cpu += p.UserTime() + p.SystemTime()
}

func (m *meter) does(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.doing = fmt.Sprintf(format, args...)
}

func (m *meter) progress() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.doing
}

// compiled adds the compilers' and the linkers' time from the file that the go command
// writes with -debug-actiongraph. That flag is not documented: without the file, or with
// another format, the table has zeros there.
func (m *meter) compiled(file string) {
	b, err := os.ReadFile(file)
	if err != nil {
		return
	}
	var actions []struct{ CmdUser, CmdSys time.Duration }
	if json.Unmarshal(b, &actions) != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range actions {
		m.compile += a.CmdUser + a.CmdSys
	}
}

// notRun describes the tests that the machine cannot run.
func (m *meter) notRun() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Join(m.without, "; ")
}

// slowest returns the n packages whose tests ran longest.
func (m *meter) slowest(n int) []packageTime {
	m.mu.Lock()
	defer m.mu.Unlock()
	sorted := slices.SortedFunc(slices.Values(m.took), func(a, b packageTime) int { return cmp.Compare(b.wall, a.wall) })
	return sorted[:min(n, len(sorted))]
}
