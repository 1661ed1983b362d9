package main

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/weir-go/weir/internal/checkout"
	"github.com/weir-go/weir/internal/host"
)

// peers are the modules whose versions are recorded with a result.
var peers = []string{
	"golang.org/x/sync",
	"resenje.org/singleflight",
	"github.com/maypok86/otter/v2",
	"github.com/viccon/sturdyc",
	"github.com/Yiling-J/theine-go",
	"github.com/Code-Hex/go-generics-cache",
}

// A machine describes where and from what a result was made: date, commit, cpu and so
// on, as in the header of the file.
type machine map[string]string

// header describes the machine and the build. The lines begin with #, so that
// benchstat ignores them: as configuration lines they would keep it from comparing
// two commits.
func header(ctx context.Context) (string, error) {
	version, err := output(ctx, "go", "env", "GOVERSION")
	if err != nil {
		return "", err
	}
	lines := []string{
		"date: " + time.Now().UTC().Format(time.DateOnly),
		"commit: " + checkout.Commit(ctx, "bench/results"),
		"cpu: " + host.CPU(),
		fmt.Sprintf("cores: %d", runtime.NumCPU()),
		"kernel: " + strings.TrimSpace(runtime.GOOS+" "+host.Kernel()),
		"go: " + strings.TrimSpace(version),
	}
	modules, err := output(ctx, "go", "list", "-deps", "-test", "-f", "{{with .Module}}{{.Path}}: {{.Version}}{{end}}", benchPackage)
	if err != nil {
		return "", err
	}
	for _, peer := range peers {
		for line := range strings.Lines(modules) {
			if strings.HasPrefix(line, peer+": ") {
				lines = append(lines, strings.TrimSpace(line))
				break
			}
		}
	}
	return "# " + strings.Join(lines, "\n# ") + "\n", nil
}

// machineOf parses a header.
func machineOf(raw string) machine {
	m := machine{}
	for line := range strings.Lines(raw) {
		line, ok := strings.CutPrefix(line, "# ")
		if !ok {
			break
		}
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		m[key] = value
	}
	return m
}

// markdown returns the machine on one line and the peers' versions on another.
func (m machine) markdown() string {
	var versions []string
	for _, p := range peers {
		if v := m[p]; v != "" {
			versions = append(versions, p+" "+v)
		}
	}
	return fmt.Sprintf("Machine: %s, %s cores, %s, %s. Commit %s, %s.\nPeers: %s.\n",
		m["cpu"], m["cores"], m["kernel"], m["go"], m["commit"], m["date"], strings.Join(versions, ", "))
}
