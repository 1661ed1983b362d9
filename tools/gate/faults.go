package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// faultsFolder has the faults that the judge must find; its README.md describes their form.
const faultsFolder = "internal/judge/testdata/faults"

// A fault is a change of the code that the judge must notice.
type fault struct {
	name, what string
	judge      string // the folder of the judge's test
	edits      []edit
}

// judges has what the judge's tests print, by their folders, if a history has a fault.
var judges = map[string]string{
	"weirhttp":            "the history, made as short as it could be",
	"jobs/check/jobshttp": "the judge says",
}

type edit struct{ path, old, new string }

// readFaults reads the faults whose names match a pattern.
func readFaults(pattern string) (all []fault, err error) {
	files, err := filepath.Glob(filepath.Join(faultsFolder, pattern+".txt"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		f, err := parseFault(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		f.name = strings.TrimSuffix(filepath.Base(file), ".txt")
		all = append(all, f)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no fault %s in %s", pattern, faultsFolder)
	}
	return all, nil
}

func parseFault(text string) (f fault, err error) {
	f.what, text, _ = strings.Cut(text, "\n")
	f.judge = "weirhttp"
	if rest, ok := strings.CutPrefix(text, "judge: "); ok {
		f.judge, text, _ = strings.Cut(rest, "\n")
		if judges[f.judge] == "" {
			return f, fmt.Errorf("no test of the judge in %q", f.judge)
		}
	}
	for text != "" {
		var e edit
		var ok, has bool
		if text, ok = strings.CutPrefix(text, "-- "); ok {
			e.path, text, ok = strings.Cut(text, " --\n")
		}
		if ok {
			e.old, text, has = strings.Cut(text, "\n-- new --\n")
		}
		if !has {
			return f, errors.New("want sections -- PATH -- and -- new --")
		}
		e.new, text, has = strings.Cut(text, "\n-- ")
		if has {
			text = "-- " + text
		}
		e.new = strings.TrimSuffix(e.new, "\n")
		f.edits = append(f.edits, e)
	}
	if len(f.edits) == 0 {
		return f, errors.New("it changes nothing")
	}
	return f, nil
}

// overlay writes the changed files and an overlay for the go command into dir, and returns
// the path of the overlay.
func (f fault) overlay(dir string) (string, error) {
	changed := map[string]string{}
	for _, e := range f.edits {
		text, ok := changed[e.path]
		if !ok {
			b, err := os.ReadFile(e.path)
			if err != nil {
				return "", err
			}
			text = string(b)
		}
		if n := strings.Count(text, e.old); n != 1 {
			return "", fmt.Errorf("%s: %s has %d times %q; want it once", f.name, e.path, n, e.old)
		}
		changed[e.path] = strings.Replace(text, e.old, e.new, 1)
	}
	replace := map[string]string{}
	for path, text := range changed {
		from, err := filepath.Abs(path)
		if err != nil {
			return "", err
		}
		replace[from] = filepath.Join(dir, strings.ReplaceAll(path, "/", "_"))
		if err := os.WriteFile(replace[from], []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, text, 0o600)
}

// The judge must find a fault in this many of so many runs, each with a fresh seed.
const (
	faultRuns  = 20
	faultFound = 19
	faultTime  = "60s"
)

// faults checks that the judge finds each fault whose name matches the pattern. Of those
// that were made after the judge, one of ten may be missed.
func faults(pattern string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		all, err := readFaults(pattern)
		if err != nil {
			return "", err
		}
		var errs []error
		further, missed := 0, 0
		for _, f := range all {
			found, runs, err := f.found(ctx)
			if err != nil {
				return "", err
			}
			fmt.Printf("       %-12s found in %d of %d runs: %s\n", f.name, found, runs, f.what)
			isFurther := strings.HasPrefix(f.name, "further-")
			if isFurther {
				further++
			}
			switch {
			case found >= faultFound:
			case isFurther:
				missed++
			default:
				errs = append(errs, fmt.Errorf("the judge finds fault %s in %d of %d runs; want %d of %d", f.name, found, runs, faultFound, faultRuns))
			}
		}
		if missed*10 > further {
			errs = append(errs, fmt.Errorf("the judge misses %d of %d faults that were made after it; want at most one of ten", missed, further))
		}
		return "", errors.Join(errs...)
	}
}

// found returns in how many runs the judge finds the fault. It stops once there are too few.
func (f fault) found(ctx context.Context) (found, runs int, err error) {
	dir, err := os.MkdirTemp("", "weir-fault-")
	if err != nil {
		return 0, 0, err
	}
	defer os.RemoveAll(dir)
	overlay, err := f.overlay(dir)
	if err != nil {
		return 0, 0, err
	}
	program := filepath.Join(dir, "judge.test")
	if _, err := (command{lavish: true}).run(ctx, "go", "test", "-overlay="+overlay, "-vet=off", "-c", "-o", program, "./"+f.judge); err != nil {
		return 0, 0, fmt.Errorf("fault %s: %w", f.name, err)
	}
	for ; runs < faultRuns && runs-found <= faultRuns-faultFound; runs++ {
		out, err := (command{env: []string{"WEIR_TEST_FULL=1"}, dir: f.judge, quiet: true}).run(ctx, program, "-test.run=TheJudgeFindsNoFault", "-test.timeout="+faultTime)
		if err != nil && strings.Contains(out, judges[f.judge]) {
			found++
		}
		if ctx.Err() != nil {
			return found, runs, ctx.Err()
		}
	}
	return found, runs, nil
}
