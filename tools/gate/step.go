package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// A step is one gate, or what gates need first.
type step struct {
	name  string
	after []string      // steps that must have passed; they come before this one
	first bool          // its tests are about load: the other step gives way to it
	may   time.Duration // how long it may take on two cores; a longer run is reported, and does not fail
	run   func(ctx context.Context) (note string, err error)
}

// A result is the outcome of a step.
type result struct {
	step
	*meter
	note  string // what could not run
	err   error
	began time.Duration // since the first step began
	wall  time.Duration
}

// errSkipped is the error of a step that did not start because a step before it failed.
var errSkipped = errors.New("did not start: a step before it failed")

// atOnce is how many steps run concurrently. Many tests wait for timers, engines and
// processes, so two steps keep two cores busy. More would only compete.
const atOnce = 2

// runSteps runs steps in their order, atOnce at a time, each as soon as the steps that
// it comes after have passed. It goes on after a failure, so that one run reports
// everything, and returns a result for each step.
func runSteps(ctx context.Context, steps []step, out io.Writer) []result {
	began := time.Now()
	results := make([]result, len(steps))
	state := make(map[string]bool) // ended steps, by name: whether they passed
	ended := make(chan int)
	var running []string // names
	var waiting []int    // indexes
	for i := range steps {
		waiting = append(waiting, i)
	}
	for len(waiting)+len(running) > 0 {
		waiting = slices.DeleteFunc(waiting, func(i int) bool {
			ready, failed := readiness(steps[i], state)
			switch {
			case failed || ctx.Err() != nil:
				results[i] = result{step: steps[i], meter: new(meter), err: errSkipped}
				state[steps[i].name] = false
				return true
			case !ready || len(running) >= atOnce:
				return false
			}
			running = append(running, steps[i].name)
			fmt.Fprintf(out, "%s  start   %s\n", clock(time.Since(began)), steps[i].name)
			results[i] = result{step: steps[i], meter: new(meter), began: time.Since(began)}
			go func() { // ends with the step, for which this function waits
				r := &results[i]
				r.note, r.err = r.run(withPriority(withMeter(ctx, r.meter), r.first))
				r.wall = time.Since(began) - r.began
				ended <- i
			}()
			return true
		})
		if len(running) == 0 {
			continue // steps were skipped, others may follow
		}
		progress := time.NewTimer(time.Minute)
		select {
		case i := <-ended:
			r := results[i]
			running = slices.DeleteFunc(running, func(name string) bool { return name == r.name })
			state[r.name] = r.err == nil
			r.write(out, began)
		case <-progress.C:
			for _, r := range results {
				if slices.Contains(running, r.name) {
					fmt.Fprintf(out, "%s  running %s: %s\n", clock(time.Since(began)), r.name, r.progress())
				}
			}
		}
		progress.Stop()
	}
	return results
}

// readiness reports whether all steps before s have passed, and whether one has failed.
func readiness(s step, state map[string]bool) (ready, failed bool) {
	ready = true
	for _, name := range s.after {
		passed, ended := state[name]
		ready = ready && passed
		failed = failed || ended && !passed
	}
	return ready, failed
}

// write writes the line of an ended step, and its output if it failed.
func (r result) write(out io.Writer, began time.Time) {
	word := "passed"
	if r.err != nil {
		word = "FAILED"
		fmt.Fprintf(out, "\n%s\n", strings.TrimRight(r.output(), "\n"))
	}
	fmt.Fprintf(out, "%s  %s  %s (%s, CPU %s)", clock(time.Since(began)), word, r.name, seconds(r.wall), seconds(r.cpu))
	if r.err != nil {
		fmt.Fprintf(out, ": %v", r.err)
	}
	fmt.Fprintln(out)
}

func clock(d time.Duration) string {
	return fmt.Sprintf("%2d:%02d", int(d.Minutes()), int(d.Seconds())%60)
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.0f s", d.Seconds()) }
