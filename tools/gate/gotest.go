package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// counts are numbers of tests, subtests included.
type counts struct{ passed, failed, skipped int }

func (c counts) plus(d counts) counts {
	return counts{c.passed + d.passed, c.failed + d.failed, c.skipped + d.skipped}
}

// errNoTest is returned by a testRun in which no test passed and none failed.
var errNoTest = errors.New("no test ran")

// A failure is a failed test, or a package that failed outside its tests.
type failure struct {
	pkg    string // relative to the root: ./limit
	test   string // "" if the package does not build, or failed outside its tests
	output string
	alone  string // the command line that runs it alone
}

// A testRun is one go test command.
type testRun struct {
	command
	flags    []string // -race and the like; they are part of the line that repeats a failure
	packages []string
	args     []string // for the test binaries
	engines  bool     // the line that repeats a failure starts engines
}

// run runs the tests and counts them on the step's meter. Their output is kept only for
// failed tests.
func (t testRun) run(ctx context.Context) error {
	m := meterOf(ctx)
	r := &reading{packages: map[string]*pkgTests{}, of: t, meter: m}
	read, write := io.Pipe()
	done := make(chan struct{})
	go func() { // ends when write is closed
		defer close(done)
		r.read(read)
	}()
	t.stdout = write
	args := slices.Concat([]string{"test", "-json", "-vet=off", "-count=1"}, t.flags, t.packages, t.args)
	_, err := t.command.run(ctx, "go", args...)
	write.Close()
	<-done

	m.mu.Lock()
	m.tests = m.tests.plus(r.total)
	m.failures = append(m.failures, r.failures...)
	m.without = append(m.without, r.without...)
	m.took = append(m.took, r.took...)
	m.mu.Unlock()
	for _, f := range r.failures {
		fmt.Fprintf(m, "--- %s\n%s\n", strings.TrimSpace(f.pkg+" "+f.test), f.output)
	}
	switch n := len(r.failures); {
	case n > 0:
		return fmt.Errorf("%d failures", n)
	case err != nil:
		return err
	case r.total.passed == 0:
		return errNoTest // skipped ones prove nothing
	}
	return nil
}

// An event is a line of go test -json (go doc test2json, go help buildjson).
type event struct {
	Action, Package, Test, Output, ImportPath, FailedBuild string
	Elapsed                                                float64 // seconds, of a test or package that has ended
}

// A reading is what has been read of the events of a testRun.
type reading struct {
	of       testRun
	meter    *meter
	packages map[string]*pkgTests
	builds   map[string]*bytes.Buffer // what the compiler printed, by ImportPath
	total    counts
	failures []failure
	without  []string // skipped tests, with what they say that the machine lacks
	took     []packageTime
}

// lack returns what a skipped test says that the machine lacks: t.Skip("WITHOUT chattr").
func lack(output *bytes.Buffer) string {
	if output == nil {
		return ""
	}
	_, text, _ := strings.Cut(output.String(), "WITHOUT ")
	text, _, _ = strings.Cut(text, "\n")
	return strings.TrimSpace(text)
}

// A packageTime is how long the tests of a package ran.
type packageTime struct {
	pkg  string
	wall time.Duration
}

// pkgTests are the tests of a package that have not passed.
type pkgTests struct {
	output  map[string]*bytes.Buffer // by test; "" is the package's own
	running map[string]bool
	failed  []string
}

// maxOutput bounds the output that is kept of one test.
const maxOutput = 256 << 10

func (r *reading) read(from io.Reader) {
	r.builds = map[string]*bytes.Buffer{}
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadBytes('\n')
		var e event
		if len(line) > 0 && (line[0] != '{' || json.Unmarshal(line, &e) != nil) {
			r.meter.Write(line) // of a program around go test
		} else if len(line) > 0 {
			r.add(e)
		}
		if err != nil {
			return
		}
	}
}

func (r *reading) add(e event) {
	if strings.HasPrefix(e.Action, "build-") {
		keep(r.builds, e.ImportPath, e.Output)
		return
	}
	p := r.packages[e.Package]
	if p == nil {
		p = &pkgTests{output: map[string]*bytes.Buffer{}, running: map[string]bool{}}
		r.packages[e.Package] = p
	}
	switch e.Action {
	case "run":
		p.running[e.Test] = true
	case "output":
		keep(p.output, e.Test, e.Output)
	case "pass", "skip":
		if e.Test == "" {
			r.packageEnded(e)
			return
		}
		if e.Action == "pass" {
			r.total.passed++
		} else {
			r.total.skipped++
			if lacks := lack(p.output[e.Test]); lacks != "" {
				r.without = append(r.without, relative(e.Package)+" "+e.Test+": without "+lacks)
			}
		}
		delete(p.output, e.Test)
		delete(p.running, e.Test)
	case "fail":
		if e.Test == "" {
			r.failedPackage(e, p)
			return
		}
		r.total.failed++
		delete(p.running, e.Test)
		p.failed = append(p.failed, e.Test)
	}
}

func keep(outputs map[string]*bytes.Buffer, key, text string) {
	if outputs[key] == nil {
		outputs[key] = new(bytes.Buffer)
	}
	if b := outputs[key]; b.Len() < maxOutput {
		b.WriteString(text)
	}
}

// packageEnded forgets the tests of a package that has ended.
func (r *reading) packageEnded(e event) {
	delete(r.packages, e.Package)
	r.took = append(r.took, packageTime{relative(e.Package), time.Duration(e.Elapsed * float64(time.Second))})
	r.meter.does("%d packages done, %d tests passed", len(r.took), r.total.passed)
}

// failedPackage records what failed in a package: its failed tests without failed
// subtests, else the tests that were running, else the package.
func (r *reading) failedPackage(e event, p *pkgTests) {
	defer r.packageEnded(e)
	pkg := relative(e.Package)
	names := slices.DeleteFunc(p.failed, func(name string) bool {
		return slices.ContainsFunc(p.failed, func(other string) bool { return strings.HasPrefix(other, name+"/") })
	})
	crashed := false
	if len(names) == 0 { // a panic, a data race outside tests, a time-out
		names = slices.DeleteFunc(slices.Sorted(maps.Keys(p.running)), func(name string) bool {
			return slices.ContainsFunc(slices.Collect(maps.Keys(p.running)), func(other string) bool { return strings.HasPrefix(other, name+"/") })
		})
		crashed = true
	}
	own := text(p.output[""])
	if e.FailedBuild != "" {
		own = text(r.builds[e.FailedBuild]) + own
	}
	for _, name := range names {
		output := text(p.output[name])
		if crashed {
			output += own
		}
		r.failures = append(r.failures, failure{pkg, name, output, r.of.alone(pkg, name)})
	}
	if len(names) == 0 {
		r.total.failed++
		r.failures = append(r.failures, failure{pkg, "", own, r.of.alone(pkg, "")})
	}
}

func text(b *bytes.Buffer) string {
	if b == nil {
		return ""
	}
	return b.String()
}

const modulePath = "github.com/weir-go/weir"

// relative returns the path of one of our packages as the go command takes it in the
// checkout's root.
func relative(pkg string) string {
	if rest, ok := strings.CutPrefix(pkg, modulePath); ok {
		return cmp.Or("."+rest, ".")
	}
	return pkg
}

// alone returns the command line that runs a test of t alone.
func (t testRun) alone(pkg, test string) string {
	var words []string
	if t.engines {
		words = append(words, "go", "run", "./tools/gate", "one", pkg)
	} else {
		words = slices.Concat(t.env, []string{"go", "test"}, t.flags, []string{pkg})
	}
	if test != "" {
		words = append(words, "-run", runPattern(test))
	}
	words = append(words, t.args...)
	for i, w := range words {
		words[i] = quote(w)
	}
	return strings.Join(words, " ")
}

// runPattern returns the pattern of -run that matches just this test or subtest.
func runPattern(test string) string {
	parts := strings.Split(test, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return strings.Join(parts, "/")
}

var plainWord = regexp.MustCompile(`^[\w./=:,@%+-]+$`)

// quote quotes a word for a shell where that is needed.
func quote(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
