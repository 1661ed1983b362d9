package main

import (
	"strings"
	"testing"
)

// read returns what a run of go test with these lines of -json means.
func read(t testRun, lines ...string) *reading {
	r := &reading{packages: map[string]*pkgTests{}, of: t, meter: new(meter)}
	r.read(strings.NewReader(strings.Join(lines, "\n")))
	return r
}

const limit = `"Package":"github.com/weir-go/weir/limit"`

func TestFailedTestsAreNamedWithTheirLine(t *testing.T) {
	race := testRun{command: alone, flags: []string{"-race"}}
	for _, tt := range []struct {
		name  string
		of    testRun
		lines []string
		want  []failure
	}{
		{"a passing package", race, []string{
			`{"Action":"run",` + limit + `,"Test":"TestA"}`,
			`{"Action":"pass",` + limit + `,"Test":"TestA"}`,
			`{"Action":"pass",` + limit + `}`,
		}, nil},
		{"only the subtest that failed, not its parent", race, []string{
			`{"Action":"run",` + limit + `,"Test":"TestA"}`,
			`{"Action":"run",` + limit + `,"Test":"TestA/one_(1)"}`,
			`{"Action":"output",` + limit + `,"Test":"TestA/one_(1)","Output":"wrong\n"}`,
			`{"Action":"fail",` + limit + `,"Test":"TestA/one_(1)"}`,
			`{"Action":"fail",` + limit + `,"Test":"TestA"}`,
			`{"Action":"output",` + limit + `,"Output":"FAIL\n"}`,
			`{"Action":"fail",` + limit + `}`,
		}, []failure{{"./limit", "TestA/one_(1)", "wrong\n", `GOWORK=off go test -race ./limit -run '^TestA$/^one_\(1\)$'`}}},
		{"a panic: the test that was running", race, []string{
			`{"Action":"run",` + limit + `,"Test":"TestA"}`,
			`{"Action":"run",` + limit + `,"Test":"TestA/b"}`,
			`{"Action":"output",` + limit + `,"Output":"panic: boom\n"}`,
			`{"Action":"fail",` + limit + `}`,
		}, []failure{{"./limit", "TestA/b", "panic: boom\n", `GOWORK=off go test -race ./limit -run '^TestA$/^b$'`}}},
		{"a package that does not build", race, []string{
			`{"ImportPath":"github.com/weir-go/weir/limit [x.test]","Action":"build-output","Output":"limit.go:1: bad\n"}`,
			`{"Action":"fail",` + limit + `,"FailedBuild":"github.com/weir-go/weir/limit [x.test]"}`,
		}, []failure{{"./limit", "", "limit.go:1: bad\n", "GOWORK=off go test -race ./limit"}}},
		{"a package with engines", testRun{engines: true}, []string{
			`{"Action":"fail",` + limit + `,"Test":"TestA"}`,
			`{"Action":"fail",` + limit + `}`,
		}, []failure{{"./limit", "TestA", "", "go run ./tools/gate one ./limit -run '^TestA$'"}}},
	} {
		got := read(tt.of, tt.lines...).failures
		if len(got) != len(tt.want) {
			t.Errorf("%s: %d failures %v; want %d", tt.name, len(got), got, len(tt.want))
			continue
		}
		for i := range got {
			if got[i] != tt.want[i] {
				t.Errorf("%s:\n%+v; want\n%+v", tt.name, got[i], tt.want[i])
			}
		}
	}
}

func TestTestsAreCounted(t *testing.T) {
	r := read(testRun{},
		`with: WITHOUT valkey, and so without the tests against it: no package`,
		`{"Action":"run",`+limit+`,"Test":"TestA"}`,
		`{"Action":"pass",`+limit+`,"Test":"TestA"}`,
		`{"Action":"output",`+limit+`,"Test":"TestB","Output":"x_test.go:1: WITHOUT chattr +i: no program\n"}`,
		`{"Action":"skip",`+limit+`,"Test":"TestB"}`,
		`{"Action":"pass",`+limit+`}`,
		`{"Action":"skip","Package":"github.com/weir-go/weir/nothing"}`,
	)
	if want := (counts{passed: 1, skipped: 1}); r.total != want {
		t.Errorf("total = %+v; want %+v", r.total, want)
	}
	if want := "./limit TestB: without chattr +i: no program"; len(r.without) != 1 || r.without[0] != want {
		t.Errorf("without = %q; want %s", r.without, want)
	}
	if got, want := withoutEngines(r.meter.output()), "valkey, and so without the tests against it: no package"; got != want {
		t.Errorf("without = %q; want %q", got, want)
	}
}

// Skipped tests are no tests: two versions that are never compared must not pass.
func TestARunWithoutATestFails(t *testing.T) {
	for output, want := range map[string]error{
		`{"Action":"pass",` + limit + `,"Test":"TestA"}`: nil,
		`{"Action":"skip",` + limit + `,"Test":"TestA"}`: errNoTest,
		`{"Action":"pass",` + limit + `}`:                errNoTest,
	} {
		printed := testRun{command: command{prefix: []string{"sh", "-c", `printf '%s\n' "$0"`, output}}}
		if err := printed.run(t.Context()); err != want {
			t.Errorf("a run that prints %s = %v; want %v", output, err, want)
		}
	}
}
