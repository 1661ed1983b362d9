package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// report writes what the steps took, what could not run, what failed and the line that
// runs each failed test alone. It reports whether all steps passed.
func report(out io.Writer, results []result, wall time.Duration) (passed bool) {
	passed = true
	var total counts
	var notes, failures []string
	var cpu time.Duration
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "\nstep\tbegan\twall\tCPU\tof it compiling\tpassed\tskipped\t\n")
	for _, r := range results {
		verdict := ""
		switch {
		case r.err == errSkipped:
			verdict = "NOT STARTED"
		case r.err != nil:
			verdict = "FAILED"
		case r.note != "":
			verdict = "in part"
		case r.may > 0 && r.wall > r.may:
			verdict = "longer than " + seconds(r.may)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.name, clock(r.began), seconds(r.wall), seconds(r.cpu), seconds(r.compile), number(r.tests.passed), number(r.tests.skipped), verdict)
		passed = passed && r.err == nil
		total = total.plus(r.tests)
		cpu += r.cpu
		if r.note != "" {
			notes = append(notes, fmt.Sprintf("NOT RUN in %s: %s", r.name, r.note))
		}
		for _, f := range r.failures {
			failures = append(failures, fmt.Sprintf("FAILED  %s\n        %s", strings.TrimSpace(f.pkg+" "+f.test), f.alone))
		}
		if r.err != nil && len(r.failures) == 0 {
			failures = append(failures, fmt.Sprintf("FAILED  %s: %v", r.name, r.err))
		}
	}
	fmt.Fprintf(w, "all\t\t%s\t%s\t\t%s\t%s\t\n", seconds(wall), seconds(cpu), number(total.passed), number(total.skipped))
	w.Flush()
	for _, r := range results {
		var words []string
		for _, p := range r.slowest(slowPackages) {
			if p.wall > slowPackage {
				words = append(words, fmt.Sprintf("%s %s", p.pkg, seconds(p.wall)))
			}
		}
		if len(words) > 0 {
			fmt.Fprintf(out, "\nslowest packages of %s: %s\n", r.name, strings.Join(words, ", "))
		}
	}
	for _, list := range [][]string{notes, failures} {
		if len(list) > 0 {
			fmt.Fprintf(out, "\n%s\n", strings.Join(list, "\n"))
		}
	}
	fmt.Fprintf(out, "\n%d passed, %d failed, %d skipped\n", total.passed, total.failed, total.skipped)
	return passed
}

// The report names at most slowPackages packages of a step, each of which took longer
// than slowPackage.
const (
	slowPackages = 12
	slowPackage  = 10 * time.Second
)

func number(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// The page that has the table of the last measured run, between these lines.
const (
	tablePage  = "docs/testing.md"
	tableBegin = "<!-- gate: steps -->"
	tableEnd   = "<!-- /gate -->"
)

// writeTable writes the steps of a run into the page.
func writeTable(results []result, wall time.Duration, machine string) error {
	page, err := os.ReadFile(tablePage)
	if err != nil {
		return err
	}
	before, rest, ok := bytes.Cut(page, []byte(tableBegin))
	_, after, closed := bytes.Cut(rest, []byte(tableEnd))
	if !ok || !closed {
		return fmt.Errorf("%s has no lines %s and %s", tablePage, tableBegin, tableEnd)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\n\n| Step | Waits for | Wall | CPU | Compiling | Tests | May take |\n|---|---|---:|---:|---:|---:|---:|\n", tableBegin)
	var cpu, compile time.Duration
	for _, r := range results {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", r.name, strings.Join(r.after, ", "), seconds(r.wall), seconds(r.cpu), seconds(r.compile), number(r.tests.passed), seconds(r.may))
		cpu += r.cpu
		compile += r.compile
	}
	fmt.Fprintf(&b, "| **all** | | **%s** | %s | %s | | |\n\n%s\n\n%s", seconds(wall), seconds(cpu), seconds(compile), machine, tableEnd)
	return os.WriteFile(tablePage, slices.Concat(before, b.Bytes(), after), 0o644)
}
