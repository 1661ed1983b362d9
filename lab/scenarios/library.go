package scenarios

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/weir-go/weir/lab/result"
	"github.com/weir-go/weir/lab/scenario"
)

var library = scenario.Scenario{
	Name:  "library",
	Title: "What weir itself costs",
	Asks:  "What do a hit, a miss and a stampede cost within the process, compared with other libraries?",
	Run:   runLibrary,
}

// A benchSize determines how long weir-bench measures.
type benchSize struct {
	bench, benchTime string
	rounds           int
}

func runLibrary(ctx context.Context, l *scenario.Lab) error {
	size := scenario.Size(l, benchSize{"^(Hit|HitInt|Miss|Stampede)$", "100ms", 6}, benchSize{"^(Hit|Stampede)$", "10ms", 1})
	report, err := runBench(ctx, l, size)
	if err != nil {
		return err
	}
	table := result.Table{Title: "weir beside its peers", Head: []string{"what", "measured", "interval", "target", ""}}
	for _, r := range report.Rows {
		verdict := r.Verdict
		if r.Unsure {
			verdict += ", within the noise"
		}
		table.Cells = append(table.Cells, []string{r.What, digits(r.Median), digits(r.Low) + " to " + digits(r.High), r.Target, verdict})
	}
	l.Table(table)
	for _, must := range []struct {
		what, row string
		most      float64
	}{
		{"a stampede is one load", "stampede: weir, most loads for one key", 1},
		{"a hit allocates nothing", "fresh hit: weir, allocations", 0},
	} {
		r, err := report.row(must.row)
		if err != nil {
			return err
		}
		l.Check(must.what, r.High <= must.most, "%s in the worst of %d rounds", digits(r.High), r.Rounds)
	}
	if err := rowsOfLibrary(l, report); err != nil {
		return err
	}
	l.Note("Measured by weir-bench %s, which also checks the targets of the design. The lab does not. "+
		"With six rounds or more an interval has 95 %% confidence; with fewer it is the range.", strings.Join(size.args(), " "))
	return nil
}

// rowsOfLibrary records the figures of the summary.
func rowsOfLibrary(l *scenario.Lab, report benchReport) error {
	for _, f := range []struct{ what, row string }{
		{"a fresh hit in sturdyc → weir, ratio of the times", "fresh hit: sturdyc / weir"},
		{"a fresh hit in singleflight around a map cache → weir, ratio of the times", "fresh hit: singleflight around map cache, callers without deadlines (Do) / weir"},
	} {
		r, err := report.row(f.row)
		if err != nil {
			return err
		}
		l.Row(result.NewRow(f.what, "times weir's", result.Lower).Here(r.Median, 1))
	}
	return nil
}

// A benchReport is the output of weir-bench.
type benchReport struct {
	Rows []benchRow `json:"rows"`
}

type benchRow struct {
	What    string  `json:"what"`
	Rounds  int     `json:"rounds"`
	Median  float64 `json:"median"`
	Low     float64 `json:"low"`
	High    float64 `json:"high"`
	Target  string  `json:"target"`
	Verdict string  `json:"verdict"`
	Unsure  bool    `json:"unsure"`
}

func (r benchReport) row(what string) (benchRow, error) {
	for _, row := range r.Rows {
		if row.What == what {
			return row, nil
		}
	}
	return benchRow{}, fmt.Errorf("weir-bench has not measured %q", what)
}

// args are the arguments of weir-bench.
func (s benchSize) args() []string {
	return []string{"run", "-bench", s.bench, "-rounds", strconv.Itoa(s.rounds), "-benchtime", s.benchTime, "-json"}
}

// buildProgram builds the main package at path, relative to the repository's root, into
// a file.
func buildProgram(ctx context.Context, l *scenario.Lab, file, path string, flags ...string) error {
	root, err := repository()
	if err != nil {
		return err
	}
	goTool, err := exec.LookPath("go")
	if err != nil {
		return fmt.Errorf("building %s needs the Go toolchain: %w", path, err)
	}
	l.Step("building %s", filepath.Base(file))
	build := exec.Command(goTool, append(append([]string{"build", "-o", file}, flags...), path)...)
	build.Dir = root
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	var out bytes.Buffer
	build.Stdout, build.Stderr = &out, &out
	if err := l.Alone(ctx, build); err != nil {
		return fmt.Errorf("go build %s: %w\n%s", path, err, bytes.TrimSpace(out.Bytes()))
	}
	return nil
}

// runBench builds weir-bench and runs it. It is built first so that its process id is
// known and can be killed.
func runBench(ctx context.Context, l *scenario.Lab, size benchSize) (report benchReport, err error) {
	root, err := repository()
	if err != nil {
		return report, err
	}
	folder, err := os.MkdirTemp("", "weir-lab")
	if err != nil {
		return report, err
	}
	l.Defer(func() error { return os.RemoveAll(folder) })
	program := filepath.Join(folder, "weir-bench")
	if err := buildProgram(ctx, l, program, "./bench/cmd/weir-bench"); err != nil {
		return report, err
	}
	l.Step("measuring, %d rounds", size.rounds)
	cmd := exec.Command(program, size.args()...)
	cmd.Dir = root
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := l.Alone(ctx, cmd); err != nil {
		return report, errors.Join(fmt.Errorf("weir-bench: %w", err), errors.New(strings.TrimSpace(log.String())))
	}
	return report, json.Unmarshal(out.Bytes(), &report)
}

// repository returns the root of weir's checkout that this program runs in.
func repository() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "go.work")); err == nil {
			if _, err := os.Stat(filepath.Join(at, "bench", "cmd", "weir-bench")); err == nil {
				return at, nil
			}
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("neither %s nor a folder above it is weir's repository: run the lab inside a checkout", dir)
		}
	}
}

// digits formats v with three significant digits, or as a whole number from 100 on.
func digits(v float64) string {
	if v >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}
