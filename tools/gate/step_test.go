package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// work is a step that takes some time.
func work(name string, d time.Duration, err error, after ...string) step {
	return step{name: name, after: after, run: func(ctx context.Context) (string, error) {
		time.Sleep(d)
		meterOf(ctx).Write([]byte("output of " + name))
		return "", err
	}}
}

func TestStepsRunTwoAtATimeAfterTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		results := runSteps(t.Context(), []step{
			work("a", time.Second, nil),
			work("b", 5*time.Second, nil),
			work("c", time.Second, nil, "a"),
			work("d", time.Second, nil, "b"),
			work("e", time.Second, nil),
		}, &out)
		for i, want := range []time.Duration{0, 0, time.Second, 5 * time.Second, 2 * time.Second} {
			if r := results[i]; r.began != want || r.err != nil {
				t.Errorf("%s began at %v, %v; want %v", r.name, r.began, r.err, want)
			}
		}
	})
}

func TestStepsGiveWayToTheFirst(t *testing.T) {
	niceness := func(name string, first bool) step {
		return step{name: name, first: first, run: func(ctx context.Context) (string, error) {
			return command{quiet: true}.run(ctx, "nice")
		}}
	}
	results := runSteps(t.Context(), []step{niceness("a", true), niceness("b", false)}, new(bytes.Buffer))
	if a, b := results[0], results[1]; a.err != nil || b.err != nil || a.note == "19" || b.note != "19" {
		t.Errorf("the first step has niceness %s, %v and the other %s, %v; want 19 for the other alone", a.note, a.err, b.note, b.err)
	}
}

func TestStepsGoOnAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		results := runSteps(t.Context(), []step{
			work("a", time.Second, errors.New("broken")),
			work("b", time.Second, nil, "a"),
			work("c", time.Second, nil, "b"),
			work("d", time.Second, nil),
		}, &out)
		for i, want := range []bool{false, false, false, true} {
			if r := results[i]; (r.err == nil) != want {
				t.Errorf("%s ended with %v; want a pass: %v", r.name, r.err, want)
			}
		}
		if results[2].err != errSkipped {
			t.Errorf("c ended with %v; want %v", results[2].err, errSkipped)
		}
		if !strings.Contains(out.String(), "output of a") || strings.Contains(out.String(), "output of d") {
			t.Errorf("want the output of the failed step, and of no other:\n%s", out.String())
		}
		var table bytes.Buffer
		if report(&table, results, 2*time.Second) {
			t.Error("report says that all passed")
		}
		if !strings.Contains(table.String(), "FAILED  a: broken") {
			t.Errorf("want the failed step at the end:\n%s", table.String())
		}
	})
}

func TestAnInterruptStartsNoFurtherStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var started atomic.Int32
		s := step{name: "a", run: func(context.Context) (string, error) { started.Add(1); cancel(); return "", ctx.Err() }}
		runSteps(ctx, []step{s, work("b", time.Second, nil), work("c", 0, nil, "a"), {name: "d", after: []string{"b"}, run: s.run}}, new(bytes.Buffer))
		if n := started.Load(); n != 1 {
			t.Errorf("%d steps started; want 1", n)
		}
	})
}
