package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"
)

// A report describes the result of a release.
type report struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"` // the commit of the release
	Go      string `json:"go,omitempty"`
	OK      bool   `json:"ok"`
	Error   string `json:"error,omitempty"`
	Steps   []row  `json:"steps"`
	Files   []made `json:"files,omitempty"`

	progress io.Writer
	step     string // the current step, with its number
}

// A row is one step.
type row struct {
	Name    string  `json:"name"`
	Result  string  `json:"result"` // ok, failed, not run
	Detail  string  `json:"detail,omitempty"`
	Seconds float64 `json:"seconds"`
}

// A made is a file that would be published.
type made struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

func newReport(version string, progress io.Writer) *report {
	return &report{Version: version, progress: progress}
}

// notRun is the error of a step that cannot run on this machine, with the reason.
type notRun string

func (n notRun) Error() string { return string(n) }

// A step is a part of a release. run returns the details for the report.
type step struct {
	name string
	run  func(context.Context) (string, error)
}

// do runs a step and adds its row.
func (r *report) do(ctx context.Context, number string, s step) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	r.step = number + " " + s.name
	r.say("…")
	began := time.Now()
	detail, err := s.run(ctx)
	at := row{Name: s.name, Result: "ok", Detail: detail, Seconds: time.Since(began).Round(100 * time.Millisecond).Seconds()}
	if why, ok := errors.AsType[notRun](err); ok {
		at.Result, at.Detail, err = "not run", string(why), nil
	}
	if err != nil {
		at.Result = "failed"
	}
	r.Steps = append(r.Steps, at)
	r.say(fmt.Sprintf("%s, %.1fs. %s", at.Result, at.Seconds, at.Detail))
	return err
}

// say writes a line of progress.
func (r *report) say(what string) { fmt.Fprintf(r.progress, "[%s] %s\n", r.step, what) }

// list adds the files of a folder.
func (r *report) list(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		size, sum, err := digest(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		r.Files = append(r.Files, made{e.Name(), size, sum})
	}
	return nil
}

// digest returns the size and the SHA-256 of a file.
func digest(name string) (int64, string, error) {
	f, err := os.Open(name)
	if err != nil {
		return 0, "", err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	return n, fmt.Sprintf("%x", h.Sum(nil)), err
}

// write writes the report as a table or as JSON.
func (r *report) write(w io.Writer, asJSON bool, err error) {
	r.OK = err == nil
	if err != nil {
		r.Error = err.Error()
	}
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		e.Encode(r) //nolint:errcheck // it fails only if the reader has gone
		return
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "\nweir %s of %.12s, built with %s\n\nstep\tresult\tseconds\tdetail\n", r.Version, r.Commit, r.Go)
	for _, s := range r.Steps {
		fmt.Fprintf(table, "%s\t%s\t%.1f\t%s\n", s.Name, s.Result, s.Seconds, s.Detail)
	}
	table.Flush()
	if len(r.Files) > 0 {
		fmt.Fprint(table, "\nfile\tbytes\tSHA-256\n")
	}
	for _, f := range r.Files {
		fmt.Fprintf(table, "%s\t%d\t%s\n", f.Name, f.Size, f.SHA256)
	}
	table.Flush()
	if n := r.count("not run"); n > 0 && r.OK {
		fmt.Fprintf(w, "\nNothing was published. Steps that could not run here: %d (see above).\n", n)
	} else if r.OK {
		fmt.Fprintln(w, "\nNothing was published.")
	}
}

func (r *report) count(result string) int {
	n := 0
	for _, s := range r.Steps {
		if strings.HasPrefix(s.Result, result) {
			n++
		}
	}
	return n
}
