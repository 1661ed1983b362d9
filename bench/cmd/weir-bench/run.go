package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

const benchPackage = "github.com/weir-go/weir/bench"

// A plan is one measurement.
type plan struct {
	rounds    int
	benchtime time.Duration
	match     string
	progress  io.Writer
}

// A cell is one benchmark of one library.
type cell struct{ bench, lib string }

// run returns the lines of all rounds, under a header that describes their origin. In
// a round every cell runs once, in a separate process. Each round begins with another
// library, so that none always runs first.
func (p plan) run(ctx context.Context) (string, error) {
	dir, err := os.MkdirTemp("", "weir-bench")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "bench.test")
	fmt.Fprintln(p.progress, "building")
	if _, err := output(ctx, "go", "test", "-c", "-o", binary, benchPackage); err != nil {
		return "", err
	}
	families, config, err := p.discover(ctx, binary)
	if err != nil {
		return "", err
	}
	head, err := header(ctx)
	if err != nil {
		return "", err
	}

	var raw strings.Builder
	raw.WriteString(head + config)
	began := time.Now()
	for round := range p.rounds {
		for _, family := range families {
			for i := range family {
				c := family[(i+round)%len(family)]
				fmt.Fprintf(p.progress, "\r%-70s", fmt.Sprintf("round %d of %d, %v: %s %s",
					round+1, p.rounds, time.Since(began).Round(time.Second), c.bench, c.lib))
				lines, _, err := p.measure(ctx, binary, c.pattern(), p.benchtime.String())
				if err != nil {
					return "", err
				}
				raw.WriteString(strings.Join(lines, ""))
			}
		}
	}
	fmt.Fprintf(p.progress, "\r%-70s\n", fmt.Sprintf("%d rounds in %v", p.rounds, time.Since(began).Round(time.Second)))
	return raw.String(), nil
}

// discover runs every benchmark once. It returns the cells, by benchmark, and
// the configuration lines that the testing package prints (goos, pkg, cpu).
func (p plan) discover(ctx context.Context, binary string) (families [][]cell, config string, err error) {
	fmt.Fprintln(p.progress, "warming up")
	match, err := regexp.Compile(p.match)
	if err != nil {
		return nil, "", err
	}
	lines, config, err := p.measure(ctx, binary, ".", "1x")
	if err != nil {
		return nil, "", err
	}
	for _, line := range lines {
		s, ok := parse(line)
		if !ok || !match.MatchString(s.bench) {
			continue
		}
		c := cell{s.bench, s.lib}
		i := slices.IndexFunc(families, func(f []cell) bool { return f[0].bench == c.bench })
		if i < 0 {
			families = append(families, []cell{c})
			continue
		}
		families[i] = append(families[i], c)
	}
	if len(families) == 0 {
		return nil, "", fmt.Errorf("no benchmark matches %q", p.match)
	}
	return families, config, nil
}

// pattern returns a pattern that selects only this cell.
func (c cell) pattern() string {
	return "^Benchmark" + regexp.QuoteMeta(c.bench) + "$/^" + regexp.QuoteMeta("lib="+c.lib) + "$"
}

// measure runs the benchmarks of pattern once.
func (p plan) measure(ctx context.Context, binary, pattern, benchtime string) (lines []string, config string, err error) {
	out, err := output(ctx, binary, "-test.run=^$", "-test.bench="+pattern, "-test.benchtime="+benchtime, "-test.timeout=5m")
	if err != nil {
		return nil, "", err
	}
	for line := range strings.Lines(out) {
		key, _, isConfig := strings.Cut(line, ": ")
		switch {
		case strings.HasPrefix(line, "Benchmark"):
			lines = append(lines, line)
		case isConfig && slices.Contains([]string{"goos", "goarch", "pkg", "cpu"}, key):
			config += line
		}
	}
	return lines, config, nil
}

// tellPromises lets the test write the table, and returns it under a header.
func tellPromises(ctx context.Context, progress io.Writer) (string, error) {
	dir, err := os.MkdirTemp("", "weir-bench")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	binary, file := filepath.Join(dir, "promises.test"), filepath.Join(dir, "promises.md")
	fmt.Fprintln(progress, "building")
	if _, err := output(ctx, "go", "test", "-c", "-o", binary, benchPackage+"/libraries"); err != nil {
		return "", err
	}
	fmt.Fprintln(progress, "telling")
	if _, err := output(ctx, binary, "-test.run=^TestPromises$", "-test.timeout=5m", "-promises.md="+file); err != nil {
		return "", err
	}
	table, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	head, err := header(ctx)
	if err != nil {
		return "", err
	}
	return "# Which library keeps which promise\n\nMade by `weir-bench promises`.\n\n" +
		string(table) + "\n" + machineOf(head).markdown(), nil
}

// output runs a program and returns its output. If the program fails, the error
// contains everything that it printed.
func output(ctx context.Context, name string, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s%s", filepath.Base(name), strings.Join(args, " "), err, stdout.String(), stderr.String())
	}
	return stdout.String(), nil
}
