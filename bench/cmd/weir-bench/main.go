// Weir-bench compares weir with its peers and prints the results: lines for
// benchstat, and a table of the ratios that weir promises.
//
//	weir-bench [run]     measures: rounds of all benchmarks, each in a
//	                     separate process, so that a slow minute of the machine
//	                     affects every library
//	weir-bench table F   prints the table of a run that is in file F
//	weir-bench check     measures a short selection, and fails if a ratio fell too
//	                     far since the last accepted run
//	weir-bench accept F  accepts the ratios of the run in file F
//	weir-bench promises  shows which library keeps which promise
//
// It must be run inside weir's repository, with a Go toolchain.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := command(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "weir-bench:", err)
		os.Exit(1)
	}
}

// command dispatches on the first argument that is not a flag.
func command(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	verb := "run"
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		verb, args = args[0], args[1:]
	}
	switch verb {
	case "run":
		return runCommand(ctx, args, stdout, stderr)
	case "table":
		return tableCommand(args, stdout, stderr)
	case "check":
		return checkCommand(ctx, args, stdout, stderr)
	case "accept":
		return acceptCommand(args, stderr)
	case "promises":
		return promisesCommand(ctx, args, stdout, stderr)
	}
	return fmt.Errorf("unknown command %q; want run, table, check, accept or promises", verb)
}

func checkCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) > 0 {
		return fmt.Errorf("check takes no arguments")
	}
	last, err := readAccepted(acceptedFile)
	if err != nil {
		return err
	}
	p := plan{rounds: 7, benchtime: 100 * time.Millisecond, match: checked, progress: stderr}
	raw, err := p.run(ctx)
	if err != nil {
		return err
	}
	if err := printReport(stdout, raw, false); err != nil {
		return err
	}
	return compareWith(last, acceptable(raw, regexp.MustCompile(checked).MatchString))
}

func acceptCommand(args []string, stderr io.Writer) error {
	if len(args) != 1 {
		return fmt.Errorf("accept takes one file, as written by run -out")
	}
	raw, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	if err := writeAccepted(acceptedFile, acceptable(string(raw), regexp.MustCompile(checked).MatchString)); err != nil {
		return err
	}
	fmt.Fprintln(stderr, "wrote", acceptedFile)
	return nil
}

func runCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	fs := flag.NewFlagSet("weir-bench run", flag.ContinueOnError)
	fs.SetOutput(stderr)
	p := plan{progress: stderr}
	fs.IntVar(&p.rounds, "rounds", 10, "how many times to run each benchmark")
	fs.DurationVar(&p.benchtime, "benchtime", 200*time.Millisecond, "duration of each run")
	fs.StringVar(&p.match, "bench", ".", "run only benchmarks that match this `regexp`")
	out := fs.String("out", "", "write the lines to this `file`, and the table beside it as .md; DATE and COMMIT in the name are filled in")
	asJSON := fs.Bool("json", false, "print the table as JSON, and no lines")
	if err := fs.Parse(args); err != nil {
		return err
	}
	raw, err := p.run(ctx)
	if err != nil {
		return err
	}
	if *out != "" {
		if err := save(*out, raw, stderr); err != nil {
			return err
		}
	}
	if !*asJSON {
		if _, err := io.WriteString(stdout, raw+"\n"); err != nil {
			return err
		}
	}
	return printReport(stdout, raw, *asJSON)
}

func tableCommand(args []string, stdout, stderr io.Writer) error {
	fs := flag.NewFlagSet("weir-bench table", flag.ContinueOnError)
	fs.SetOutput(stderr)
	asJSON := fs.Bool("json", false, "print the table as JSON")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() != 1 {
		return fmt.Errorf("table takes one file, as written by run -out")
	}
	raw, err := os.ReadFile(fs.Arg(0))
	if err != nil {
		return err
	}
	return printReport(stdout, string(raw), *asJSON)
}

func promisesCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	fs := flag.NewFlagSet("weir-bench promises", flag.ContinueOnError)
	fs.SetOutput(stderr)
	out := fs.String("out", "", "write the table to this `file`")
	if err := fs.Parse(args); err != nil {
		return err
	}
	table, err := tellPromises(ctx, stderr)
	if err != nil {
		return err
	}
	if *out != "" {
		if err := write(*out, table); err != nil {
			return err
		}
	}
	_, err = io.WriteString(stdout, table)
	return err
}

// save writes the lines to name, and the table beside it.
func save(name, raw string, stderr io.Writer) error {
	m := machineOf(raw)
	name = strings.NewReplacer("DATE", m["date"], "COMMIT", m["commit"]).Replace(name)
	var table strings.Builder
	if err := printReport(&table, raw, false); err != nil {
		return err
	}
	if err := write(name, raw); err != nil {
		return err
	}
	beside := strings.TrimSuffix(name, filepath.Ext(name)) + ".md"
	if err := write(beside, table.String()); err != nil {
		return err
	}
	fmt.Fprintln(stderr, "wrote", name, "and", beside)
	return nil
}

// write writes a file, and creates its folder if necessary.
func write(name, text string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, []byte(text), 0o644)
}

func printReport(w io.Writer, raw string, asJSON bool) error {
	r := newReport(raw)
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	_, err := io.WriteString(w, r.markdown())
	return err
}
