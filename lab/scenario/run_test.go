package scenario_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weir-go/weir/lab/load"
	"github.com/weir-go/weir/lab/result"
	"github.com/weir-go/weir/lab/scenario"
)

// counting is a scenario whose service counts the requests that reach its source.
// Each test sets its Run.
var counting = scenario.Scenario{Name: "counting", Service: countingService}

func TestMain(m *testing.M) {
	scenario.Child([]scenario.Scenario{counting})
	os.Exit(m.Run())
}

func countingService(_ context.Context, o scenario.Options) (*scenario.Service, error) {
	var status int
	if err := o.Decode(&status); err != nil {
		return nil, err
	}
	if o.Variant == "broken" {
		return nil, errors.New("the service's own words")
	}
	meter := new(scenario.Meter)
	var resets, asked atomic.Int64
	return &scenario.Service{
		Meter:  meter,
		Gauges: map[string]func() float64{result.QueueDepth: func() float64 { return 7 }},
		Values: func() map[string]float64 {
			return map[string]float64{"resets": float64(resets.Load()), "asked": float64(asked.Load())}
		},
		Reset: func(context.Context) error { resets.Add(1); return nil },
		Control: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			io.WriteString(w, r.URL.Path) //nolint:errcheck // the test reports what it received
		}),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer meter.Begin()()
			w.WriteHeader(status)
			fmt.Fprintln(w, "an answer")
		}),
	}, nil
}

// run runs counting with f as its Run.
func run(t *testing.T, f func(ctx context.Context, l *scenario.Lab) error) (result.Scenario, error) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := counting
	s.Run = f
	return scenario.Config{Program: program, Small: true}.Run(t.Context(), s)
}

// ended reports whether the process with that id has exited, or is a zombie that only
// we can reap.
func ended(pid int) bool {
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if syscall.Kill(pid, 0) == syscall.ESRCH {
			return true
		}
	}
	return false
}

func TestMeasure(t *testing.T) {
	res, err := run(t, func(ctx context.Context, l *scenario.Lab) error {
		s, err := l.Serve(ctx, "plain", http.StatusOK)
		if err != nil {
			return err
		}
		body, err := s.Control(ctx, "/there")
		if string(body) != "/there" || err != nil {
			t.Errorf("Control = %q, %v; want /there", body, err)
		}
		for round := range 2 {
			if _, err := l.Measure(ctx, s, scenario.Job{Round: round + 1, Load: load.Spec{Mode: load.Closed, Clients: 3, Requests: 30}}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range res.Measurements {
		if m.Variant != "plain" || m.Round != i+1 || m.Requests != 30 || m.Good != 30 || m.Failures != 0 || m.Statuses[200] != 30 {
			t.Errorf("round %d: %+v; want 30 successful responses", i+1, m)
		}
		if m.Source == nil || m.Source.Calls != 30 {
			t.Errorf("round %d: source %+v; want 30 calls, only of this round", i+1, m.Source)
		}
		if m.Values["resets"] != float64(i+1) || m.Values["asked"] != 1 {
			t.Errorf("round %d: values %v; want %d resets, queried once", i+1, m.Values, i+1)
		}
		if m.Latency == nil || m.Latency.P50 <= 0 || len(m.Latency.Distribution) == 0 || m.CPU == nil || m.CPU.Generator <= 0 {
			t.Errorf("round %d: latency %+v, CPU %+v; want both measured", i+1, m.Latency, m.CPU)
		}
	}
	if len(res.Measurements) != 2 {
		t.Errorf("%d measurements; want 2", len(res.Measurements))
	}
}

func TestFailuresAreCounted(t *testing.T) {
	res, err := run(t, func(ctx context.Context, l *scenario.Lab) error {
		s, err := l.Serve(ctx, "failing", http.StatusServiceUnavailable)
		if err != nil {
			return err
		}
		_, err = l.Measure(ctx, s, scenario.Job{Load: load.Spec{Mode: load.Closed, Clients: 2, Requests: 10}})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if m := res.Measurements[0]; m.Failures != 10 || m.Good != 0 || m.Statuses[503] != 10 || m.FirstFailure == "" {
		t.Errorf("%+v; want 10 failures with 503", m)
	}
	if _, err := json.Marshal(res); err != nil {
		t.Errorf("a measurement without a successful response is not valid JSON: %v", err)
	}
}

func TestNothingIsLeft(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(ctx context.Context) error
		want string
	}{
		{"an error", func(context.Context) error { return errors.New("no more") }, "no more"},
		{"a panic", func(context.Context) error { panic("what now") }, "panic: what now"},
		{"the end", func(context.Context) error { return nil }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var pid int
			var order []string
			res, err := run(t, func(ctx context.Context, l *scenario.Lab) error {
				l.Defer(func() error { order = append(order, "first"); return nil })
				l.Defer(func() error { order = append(order, "second"); return nil })
				s, err := l.Serve(ctx, "plain", http.StatusOK)
				if err != nil {
					return err
				}
				pid = s.Pid()
				return tt.end(ctx)
			})
			if got := fmt.Sprint(err); tt.want != "" && !strings.Contains(got, tt.want) || !strings.Contains(res.Error, tt.want) {
				t.Errorf("err = %v, result's %q; want %q in both", err, res.Error, tt.want)
			}
			if pid == 0 || !ended(pid) {
				t.Errorf("the service, process %d, still runs", pid)
			}
			if fmt.Sprint(order) != "[second first]" {
				t.Errorf("stopped %v; want reverse order", order)
			}
		})
	}
}

func TestAServiceThatDoesNotStartSaysWhy(t *testing.T) {
	_, err := run(t, func(ctx context.Context, l *scenario.Lab) error {
		_, err := l.Serve(ctx, "broken", http.StatusOK)
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "the service's own words") {
		t.Errorf("err = %v; want the service's own error", err)
	}
}

func TestChecks(t *testing.T) {
	res, err := run(t, func(_ context.Context, l *scenario.Lab) error {
		l.Check("one is one", true, "%d", 1)
		l.CheckTime("it is fast", false, "not judged at the small size")
		l.Check("one is two", false, "%d", 1)
		return nil
	})
	if !errors.Is(err, scenario.ErrNotHeld) || len(res.Checks) != 2 || res.Held() {
		t.Errorf("err = %v, checks %v; want ErrNotHeld, and two of the three", err, res.Checks)
	}
}

func TestFindNamesWhatThereIs(t *testing.T) {
	_, err := scenario.Find([]scenario.Scenario{counting}, "counting", "counted")
	if err == nil || !strings.Contains(err.Error(), `"counted"`) || !strings.Contains(err.Error(), "[counting]") {
		t.Errorf("err = %v; want the unknown name, and the existing ones", err)
	}
}
