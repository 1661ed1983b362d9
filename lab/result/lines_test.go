package result_test

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/lab/result"
)

func number(v float64) *float64 { return &v }

func head() result.Head {
	return result.Head{
		StartedAt: time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC), Commit: "5456eed", Size: result.Full,
		Machine: result.Machine{OS: "linux", Kernel: "6.1", Arch: "amd64", CPU: "a model", CPUs: 2, Go: "go1.26.8"},
		Notes:   []string{"not pinned"},
	}
}

// full has every field set, so that the round trip fails if one is not written or not
// read.
func full() result.Scenario {
	return result.Scenario{
		Name: "do-once", Title: "Do once", Asks: "How often?", Engines: map[string]string{"nginx": "1.26.3"},
		Published: &result.Published{Title: "a text", URL: "https://example.com/", Setup: "ab -c 20",
			FromSource: []string{"100 ms each"}, Inconsistencies: []string{"two numbers"}, Flaws: []string{"a shared pointer"}},
		Measurements: []result.Measurement{{
			Variant: "weir", Setting: "12 connections", X: 1.5, Round: 1, Load: "closed loop",
			Requests: 10, Good: 9, Failures: 1, FirstFailure: "503", Statuses: map[int]int64{0: 1, 200: 9},
			Seconds: 2, PerSecond: 4.5,
			Latency: &result.Latency{P50: 1, P90: 2, P99: 3, P999: 4, Slowest: 5, Mean: 1.5, Distribution: []result.Point{{MS: 1, Share: 0.5}}},
			Source:  &result.Source{Calls: 2, Most: 1, LongestMS: 3, MeanMS: 2},
			Series:  []result.Series{{Name: result.CallsAtSource, Unit: "calls/s", EveryMS: 100, Values: []float64{1, 0}}},
			CPU:     &result.CPU{Generator: 0.5, Service: 0.25, Engines: 1, Pinned: true},
			Values:  map[string]float64{"hit ratio": 0.5},
		}},
		Rows: []result.Row{{What: "time", Unit: "s", Better: result.Lower, PublishedBefore: number(16), PublishedAfter: number(6.6),
			Before: number(0), After: nil, Ceiling: number(1), FromSource: true, Note: "a note"}},
		Tables: []result.Table{{Title: "a table", Head: []string{"a"}, Cells: [][]string{{"1"}}}},
		Checks: []result.Check{{What: "one call", Holds: true, Detail: "1"}},
		Notes:  []string{"a note"}, Axis: "load", ElapsedS: 12.5, Error: "cut short",
	}
}

func write(t *testing.T, h result.Head, scenarios ...result.Scenario) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w, err := result.NewWriter(&b, h)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range scenarios {
		if err := w.Scenario(s); err != nil {
			t.Fatal(err)
		}
	}
	return &b
}

func TestLinesRoundTrip(t *testing.T) {
	want := result.Run{Head: head(), Scenarios: []result.Scenario{full(), {Name: "empty"}}}
	b := write(t, want.Head, want.Scenarios...)
	if n := strings.Count(b.String(), "\n"); n != 3 {
		t.Errorf("%d lines; want one for the head and one for each scenario", n)
	}
	got, err := result.Read(b)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("Read = %+v, %v; want %+v", got, err, want)
	}
}

// The scenario of the round trip test has no zero field at any depth: otherwise a
// field without a working JSON name would pass.
func TestLinesRoundTripCoversEveryField(t *testing.T) {
	var look func(path string, v reflect.Value)
	look = func(path string, v reflect.Value) {
		switch v.Kind() {
		case reflect.Pointer:
			if v.IsNil() && path != ".Rows[].After" {
				t.Errorf("full()%s is nil", path)
			} else if !v.IsNil() && v.Elem().Kind() == reflect.Struct {
				look(path, v.Elem())
			}
		case reflect.Struct:
			for i := range v.NumField() {
				look(path+"."+v.Type().Field(i).Name, v.Field(i))
			}
		case reflect.Slice:
			if v.Len() == 0 {
				t.Errorf("full()%s is empty", path)
			} else {
				look(path+"[]", v.Index(0))
			}
		default:
			if v.IsZero() {
				t.Errorf("full()%s is zero", path)
			}
		}
	}
	look("", reflect.ValueOf(full()))
}

func TestReadTakesTheLastOfEach(t *testing.T) {
	later := head()
	later.Commit = "later"
	both := write(t, head(), result.Scenario{Name: "a", Title: "old"}, result.Scenario{Name: "b"})
	both.Write(write(t, later, result.Scenario{Name: "a", Title: "new"}).Bytes())
	got, err := result.Read(both)
	if err != nil || got.Head.Commit != "later" || len(got.Scenarios) != 2 ||
		got.Scenarios[0].Title != "new" || got.Scenarios[1].Name != "b" {
		t.Errorf("Read = %+v, %v; want the later head, the last a, then b", got, err)
	}
}

func TestReadRefuses(t *testing.T) {
	whole := write(t, head(), result.Scenario{Name: "a"}).String()
	tests := []struct{ name, file, want string }{
		{"nothing", "", "no head"},
		{"no head", `{"scenario":{"name":"a"}}`, "no head"},
		{"another file", "{}", "line 1 is neither"},
		{"a line cut short", whole[:len(whole)-5], "line 2"},
		{"a line too long", whole + strings.Repeat(" ", result.MaxLine+1), "read"},
	}
	for _, tt := range tests {
		if _, err := result.Read(strings.NewReader(tt.file)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: Read = %v; want an error with %q", tt.name, err, tt.want)
		}
	}
}

type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }

func TestWriterSaysThatItCannotWrite(t *testing.T) {
	broken := errors.New("disk full")
	if _, err := result.NewWriter(brokenWriter{broken}, head()); !errors.Is(err, broken) {
		t.Errorf("NewWriter = %v; want %v", err, broken)
	}
}

func TestRowRatioAboveOneIsAnImprovement(t *testing.T) {
	tests := []struct {
		row             result.Row
		published, here float64
	}{
		{result.Row{Better: result.Lower, PublishedBefore: number(16), PublishedAfter: number(8), Before: number(9), After: number(3)}, 2, 3},
		{result.Row{Better: result.Higher, PublishedBefore: number(10), PublishedAfter: number(50), Before: number(4), After: number(2)}, 5, 0.5},
		{result.Row{Better: result.Higher, PublishedBefore: number(0), PublishedAfter: number(50), After: number(2)}, 0, 0},
		{result.Row{Better: result.Lower, Before: number(3), After: number(0)}, 0, 0},
	}
	for _, tt := range tests {
		if p, h := tt.row.PublishedRatio(), tt.row.Ratio(); p != tt.published || h != tt.here {
			t.Errorf("%+v: ratios %g and %g; want %g and %g", tt.row, p, h, tt.published, tt.here)
		}
	}
}

func TestScenarioHeld(t *testing.T) {
	good, bad := result.Check{Holds: true}, result.Check{}
	for _, tt := range []struct {
		s    result.Scenario
		want bool
	}{
		{result.Scenario{}, true},
		{result.Scenario{Checks: []result.Check{good, good}}, true},
		{result.Scenario{Checks: []result.Check{good, bad}}, false},
		{result.Scenario{Checks: []result.Check{good}, Error: "cut short"}, false},
	} {
		if got := tt.s.Held(); got != tt.want {
			t.Errorf("Held of %+v = %t; want %t", tt.s, got, tt.want)
		}
	}
}
