package load_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/lab/load"
)

const (
	us = time.Microsecond
	ms = time.Millisecond
)

func TestParse(t *testing.T) {
	tests := []struct {
		file string
		want load.Tool
	}{
		{"ab-ok", load.Tool{Complete: 2000, Seconds: 0.339, PerSecond: 5894.33, P50: 3 * ms, P99: 5 * ms, Slowest: 5 * ms}},
		{"ab-mixed", load.Tool{Complete: 2000, Failed: 1814, Non2xx: 121, LengthFailures: 1814, Seconds: 1.590,
			PerSecond: 1257.87, P50: ms, P99: 302 * ms, Slowest: 305 * ms}},
		{"ab-one", load.Tool{Complete: 1, Seconds: 1.003, PerSecond: 1, P50: 1003 * ms, P99: 1003 * ms, Slowest: 1003 * ms}},
		{"ab-drop", load.Tool{Complete: 200, Failed: 46, LengthFailures: 46, Seconds: 0.026,
			PerSecond: 7570.88, P50: ms, P99: ms, Slowest: 2 * ms}},
		{"hey-mixed", load.Tool{Complete: 2000, Non2xx: 104, Statuses: map[int]int64{200: 1896, 503: 104}, Seconds: 3.9442,
			PerSecond: 507.07, P50: 200 * us, P99: 300900 * us, Slowest: 303600 * us}},
		{"hey-four", load.Tool{Complete: 4, Statuses: map[int]int64{200: 4}, Seconds: 2.0032,
			PerSecond: 1.9968, P50: 1001700 * us, Slowest: 1001700 * us}},
		{"hey-drop", load.Tool{Complete: 200, Failed: 7, Statuses: map[int]int64{0: 7, 200: 193}, Seconds: 0.0304,
			PerSecond: 6571.8185, P50: 400 * us, P99: 6800 * us, Slowest: 6800 * us}},
		{"hey-refused", load.Tool{Complete: 4, Failed: 4, Statuses: map[int]int64{0: 4}, Seconds: 0.0008, PerSecond: 5248.5724}},
		{"wrk-mixed", load.Tool{Complete: 203, Non2xx: 11, Seconds: 1.10,
			PerSecond: 184.49, P50: 269 * us, P99: 300720 * us, Slowest: 301160 * us}},
		{"wrk-timeout", load.Tool{Complete: 4, Failed: 4, Seconds: 3.02, PerSecond: 1.32}},
		{"wrk-drop", load.Tool{Complete: 11106 + 3762, Failed: 3762, Seconds: 1.10,
			PerSecond: 10098.79, P50: 71 * us, P99: 1360 * us, Slowest: 4140 * us}},
		{"h2load-ok", load.Tool{Complete: 20, Seconds: 0.00806, PerSecond: 2481.39, P50: 162 * us, P99: 348 * us, Slowest: 348 * us}},
		{"h2load-bad", load.Tool{Complete: 12, Non2xx: 12, Seconds: 0.01487, PerSecond: 806.83}},
		{"h2load-errored", load.Tool{Complete: 4016, Failed: 16, Seconds: 1.01, PerSecond: 4000, P50: 380 * us, P99: 436 * us, Slowest: 436 * us}},
	}
	for _, tt := range tests {
		if got, err := parse(t, tt.file); err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s:\ngot  %+v, %v\nwant %+v, nil", tt.file, got, err, tt.want)
		}
	}
}

func TestParseWithoutAReportIsAnErrorThatShowsTheOutput(t *testing.T) {
	for file, want := range map[string]string{"ab-refused": "Connection refused", "wrk-refused": "Connection refused", "h2load-refused": "requests: 0 total"} {
		if got, err := parse(t, file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v; want an error that contains %q", file, got, err, want)
		}
	}
	if got, err := load.ParseHey("hey: no such thing"); err == nil {
		t.Errorf("ParseHey = %+v, nil; want an error", got)
	}
}

// parse parses the output of a tool, chosen by the file's name.
func parse(t *testing.T, file string) (load.Tool, error) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", file+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	name, _, _ := strings.Cut(file, "-")
	by := map[string]func(string) (load.Tool, error){"ab": load.ParseAb, "hey": load.ParseHey, "wrk": load.ParseWrk, "h2load": load.ParseH2load}
	return by[name](string(text))
}

func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		f.Fatalf("testdata: %v, %v; want outputs", files, err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, parse := range []func(string) (load.Tool, error){load.ParseAb, load.ParseHey, load.ParseWrk, load.ParseH2load} {
			if got, err := parse(text); err != nil && !reflect.DeepEqual(got, load.Tool{}) {
				t.Errorf("parse(%q) = %+v, %v; want nothing with an error", text, got, err)
			}
		}
	})
}
