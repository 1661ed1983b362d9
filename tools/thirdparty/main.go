// Command thirdparty compares the table of third-party licences with the packages that the
// released modules and the command import, and fails if it differs, or if a licence is
// unknown or not allowed.
//
//	go run ./tools/thirdparty          compare
//	go run ./tools/thirdparty -write   write the table again
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/weir-go/weir/tools/released"
	"github.com/weir-go/weir/tools/thirdparty/licence"
)

// table is the file with the table.
const table = "docs/reference/licences.md"

// systems are the values of GOOS for which we publish binaries: some modules are imported
// on one of them only.
var systems = []string{"linux", "darwin", "windows"}

func main() {
	write := flag.Bool("write", false, "write the table again instead of comparing it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *write); err != nil {
		fmt.Fprintln(os.Stderr, "thirdparty:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, write bool) error {
	rows, err := collect(ctx)
	if err != nil {
		return err
	}
	want := []byte(markdown(rows))
	if write {
		return os.WriteFile(table, want, 0o644)
	}
	have, err := os.ReadFile(table)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return compare(have, want)
}

// A row is one third-party module or file.
type row struct {
	name     string
	licences []string
	users    []string // the folders of the released modules that import it
}

// collect returns a row for each module that a released module imports, and for each
// vendored file, sorted by name. It returns all faults at once.
func collect(ctx context.Context) ([]row, error) {
	rows := map[string]*row{}
	dirs := map[string]string{}
	var errs []error
	for _, m := range released.Modules {
		for _, system := range systems {
			deps, err := dependencies(ctx, m, system)
			if err != nil {
				return nil, err
			}
			for name, dir := range deps {
				dirs[name] = dir
				use(rows, name, m)
			}
		}
		vendored, err := vendoredLicences(m)
		if err != nil {
			return nil, err
		}
		for name, file := range vendored {
			use(rows, name, m)
			ids, err := licence.OfFile(file)
			rows[name].licences = ids
			errs = append(errs, err)
		}
	}
	for name, dir := range dirs {
		ids, err := licence.Of(dir)
		if err != nil {
			err = fmt.Errorf("%s, imported by %s: %w", name, strings.Join(rows[name].users, ", "), err)
		}
		rows[name].licences = ids
		errs = append(errs, err)
	}
	var sorted []row
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		sorted = append(sorted, *rows[name])
	}
	return sorted, errors.Join(errs...)
}

// use records that m contains name.
func use(rows map[string]*row, name string, m released.Module) {
	if rows[name] == nil {
		rows[name] = &row{name: name}
	}
	if r := rows[name]; !slices.Contains(r.users, m.Dir) {
		r.users = append(r.users, m.Dir)
	}
}

// dependencies returns the folders of the third-party modules, by path, whose packages m
// imports on a system, without those that only tests import.
func dependencies(ctx context.Context, m released.Module, system string) (map[string]string, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-deps", "-json=Module,Standard", "./"+path.Join(m.Dir, "..."))
	cmd.Env = append(os.Environ(), "GOOS="+system, "GOARCH=amd64", "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list of %s: %w", m.Path(), err)
	}
	found := map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			Module *struct{ Path, Dir string }
		}
		if err := d.Decode(&p); err == io.EOF {
			return found, nil
		} else if err != nil {
			return nil, err
		}
		if p.Module != nil && !strings.HasPrefix(p.Module.Path+"/", released.Core+"/") {
			found[p.Module.Path] = p.Module.Dir
		}
	}
}

// vendoredLicences returns the files called NAME.LICENSE in m, by NAME.
func vendoredLicences(m released.Module) (map[string]string, error) {
	files, err := m.Files(".")
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, file := range files {
		if name, ok := strings.CutSuffix(filepath.Base(file), ".LICENSE"); ok {
			found[name] = file
		}
	}
	return found, nil
}

// markdown returns the page with the table.
func markdown(rows []row) string {
	var b strings.Builder
	b.WriteString("# Licences of the dependencies\n\n" +
		"Third-party code in the released modules and in the command `weir`. Allowed are " + strings.Join(licence.Allowed, ", ") + ".\n" +
		"The archives and the packages of a release contain the full texts, and that of Go.\n" +
		"`go run ./tools/thirdparty -write` writes this page; `make test` compares it.\n\n" +
		"| Module | Licence | Imported by |\n|---|---|---|\n")
	for _, r := range rows {
		users := make([]string, len(r.users))
		for i, dir := range r.users {
			users[i] = strings.Replace(dir, ".", "core", 1)
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", r.name, strings.Join(r.licences, ", "), strings.Join(users, ", "))
	}
	return b.String()
}

// compare returns an error with the lines in which the tables differ.
func compare(have, want []byte) error {
	if bytes.Equal(have, want) {
		return nil
	}
	var changes []string
	only := func(sign string, a, b []byte) {
		in := strings.Split(string(b), "\n")
		for _, line := range strings.Split(string(a), "\n") {
			if !slices.Contains(in, line) {
				changes = append(changes, sign+line)
			}
		}
	}
	only("-", have, want)
	only("+", want, have)
	return fmt.Errorf("%s is out of date:\n\t%s\nRun go run ./tools/thirdparty -write and commit it", table, strings.Join(changes, "\n\t"))
}
