// Command release builds a release of weir in a scratch clone, and installs it as a user
// would. It publishes nothing and does not change the checkout.
//
//	go run ./tools/release --dry-run v0.1.0                    everything, for every platform
//	go run ./tools/release --dry-run --out DIR v0.1.0          also keeps the clone and the files
//	go run ./tools/release --dry-run --short v0.1.0            this platform only, with warm caches, as in make test
//
// RELEASING.md says how to publish the result.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/mod/semver"
)

const (
	exitFailed = 1
	exitUsage  = 2
)

// An options holds the command line.
type options struct {
	version   string
	short     bool
	json      bool
	out       string // empty: the files are removed at the end
	platforms []platform
}

// A platform is an operating system and architecture.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "/" + p.arch }

// host is the platform of this process.
var host = platform{runtime.GOOS, runtime.GOARCH}

// platforms are the platforms for which a release has binaries.
var platforms = []platform{
	{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := Main(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// Main runs one command line and returns its exit code. Results go to stdout, progress
// and errors to stderr.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(stderr, "release:", err)
		return exitUsage
	}
	report, err := release(ctx, o, stderr)
	if report != nil {
		report.write(stdout, o.json, err)
	}
	if err != nil {
		fmt.Fprintln(stderr, "release:", err)
		return exitFailed
	}
	return 0
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	set := flag.NewFlagSet("release", flag.ContinueOnError)
	set.SetOutput(io.Discard) // the returned error is printed anyway
	dry := set.Bool("dry-run", false, "publish nothing (required: RELEASING.md says how to publish)")
	set.BoolVar(&o.short, "short", false, "one platform, caches of this machine, no tests of the modules")
	set.BoolVar(&o.json, "json", false, "write the report as JSON")
	set.StringVar(&o.out, "out", "", "`folder` that keeps the clone and the files; it must not exist")
	names := set.String("platforms", "", "comma-separated `list` such as linux/amd64; default: all")
	if err := set.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(stderr, "usage: go run ./tools/release --dry-run [flags] VERSION")
			set.SetOutput(stderr)
			set.PrintDefaults()
		}
		return o, err
	}
	if set.NArg() != 1 {
		return o, fmt.Errorf("want one version such as v0.1.0 after the flags, have %q", set.Args())
	}
	o.version = set.Arg(0)
	if err := checkVersion(o.version); err != nil {
		return o, err
	}
	if !*dry {
		return o, errors.New("this command does not publish: add --dry-run, and see RELEASING.md")
	}
	if o.out != "" {
		if _, err := os.Lstat(o.out); err == nil {
			return o, fmt.Errorf("--out=%s: exists already", o.out)
		}
	}
	var err error
	o.platforms, err = pick(*names, o.short)
	return o, err
}

// checkVersion returns an error if v is not a possible version of our modules.
func checkVersion(v string) error {
	switch {
	case !semver.IsValid(v) || semver.Canonical(v) != v:
		return fmt.Errorf("version %q: want vMAJOR.MINOR.PATCH such as v0.1.0, with an optional pre-release such as -rc.1", v)
	case semver.Major(v) != "v0" && semver.Major(v) != "v1":
		return fmt.Errorf("version %q: the module paths have no /%s", v, semver.Major(v))
	}
	return nil
}

// pick returns the named platforms. If none is named, it returns all, or in the short
// form only that of this machine.
func pick(names string, short bool) ([]platform, error) {
	if names == "" && short {
		names = host.String()
	}
	if names == "" {
		return platforms, nil
	}
	var picked []platform
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(platforms, func(p platform) bool { return p.String() == name })
		if i < 0 {
			return nil, fmt.Errorf("platform %q: want one of %v", name, platforms)
		}
		picked = append(picked, platforms[i])
	}
	return picked, nil
}

// A releaser builds one release.
type releaser struct {
	options
	*report
	root  string // the checkout
	tmp   string // all generated files, removed at the end
	files string // the files to publish
	git   git    // in the scratch clone
	goes  goEnv  // with the caches of the scratch clone

	when   time.Time // the time of the commit, used for all generated files
	before string    // git status of the checkout at the start
	clones []string  // clones in which binaries were built
}

// release runs all steps in order. Each adds a row to the report.
func release(ctx context.Context, o options, progress io.Writer) (*report, error) {
	root, err := findRoot()
	if err != nil {
		return nil, err
	}
	tmp, err := os.MkdirTemp("", "weir-release-")
	if err != nil {
		return nil, err
	}
	r := &releaser{options: o, root: root, tmp: tmp, files: filepath.Join(tmp, "files"), report: newReport(o.version, progress)}
	defer func() {
		r.goes.run(context.Background(), tmp, "clean", "-modcache") //nolint:errcheck // RemoveAll cannot remove its read-only files
		os.RemoveAll(tmp)
	}()
	if err := os.Mkdir(r.files, 0o755); err != nil {
		return nil, err
	}
	steps := []step{
		{"scratch clone", r.clone},
		{"changelog and notes", r.changelog},
		{"requires and tags", r.tagModules},
		{"binaries", r.build},
		{"binaries again, from another clone", r.rebuild},
		{"archives", r.archive},
		{"SBOM", r.describe},
		{"deb", r.debs},
		{"checksums", r.sum},
		{"go get of each module", r.getModules},
		{"go install of the command", r.installCommand},
		{"archive of this platform", r.tryArchive},
		{"deb in a bare root", r.tryDeb},
		{"other platforms", r.others},
		{"git status", r.status},
	}
	if o.out != "" {
		steps = append(steps, step{"kept files", r.keep})
	}
	for i, s := range steps {
		if err := r.do(ctx, fmt.Sprintf("%d/%d", i+1, len(steps)), s); err != nil {
			return r.report, fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return r.report, r.list(r.files)
}

// findRoot returns the root of the checkout that contains the current folder.
func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no go.work here or above: run this in the checkout")
		}
		dir = filepath.Dir(dir)
	}
}
