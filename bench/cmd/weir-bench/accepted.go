package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
)

const (
	// mayFall is how much worse a ratio may be than the worse end of the interval of the
	// last accepted run: 0.25 is a quarter.
	mayFall = 0.25

	// acceptedFile has the ratios of the last accepted run.
	acceptedFile = "bench/results/accepted.json"

	// checked matches the benchmarks that check runs: those that take no more than
	// milliseconds a round, so that all rounds take less than five minutes on two cores.
	checked = "^(Hit|HitInt|HitParallel|Miss|MissFull|Flight|Stampede|Refusal)$"
)

// An accepted is a ratio of the last accepted run.
type accepted struct {
	What string `json:"what"`
	spread
}

// lowerIsBetter reports whether a lower value of the goal is better for weir: the goal has
// an upper bound, or none and weir's cost is the numerator.
func (g goal) lowerIsBetter() bool {
	return g.sense == atMost || g.sense == toKnow && strings.HasPrefix(g.num, "weir")
}

// holds reports whether the goal can be compared with another run, on another machine: it
// is a ratio of two measurements of one run, or a count.
func (g goal) holds() bool {
	return g.den != "" && (strings.HasPrefix(g.num, "weir") || strings.HasPrefix(g.den, "weir")) ||
		g.unit == "allocs/op" || g.unit == "loads/op"
}

// acceptable returns the rows of a run that check compares.
func acceptable(raw string, match func(bench string) bool) []accepted {
	rows := map[string]row{}
	for _, r := range newReport(raw).Rows {
		rows[r.What] = r
	}
	var found []accepted
	for _, g := range goals {
		r, ok := rows[g.what]
		if ok && g.holds() && match(g.bench) && match(cmp.Or(g.denBench, g.bench)) {
			found = append(found, accepted{g.what, r.spread})
		}
	}
	return found
}

// compareWith returns an error for each ratio that fell too far since the accepted run, and
// for each that only one of the two runs has.
func compareWith(last, now []accepted) error {
	before := map[string]accepted{}
	for _, a := range last {
		before[a.What] = a
	}
	var errs []error
	for _, a := range now {
		b, ok := before[a.What]
		delete(before, a.What)
		if !ok {
			errs = append(errs, fmt.Errorf("%s: %s has no such ratio; run weir-bench accept", a.What, acceptedFile))
			continue
		}
		errs = append(errs, fell(a, b))
	}
	for _, a := range last {
		if _, ok := before[a.What]; ok {
			errs = append(errs, fmt.Errorf("%s: not measured", a.What))
		}
	}
	return errors.Join(errs...)
}

// fell returns an error if now is worse than the worse end of last's interval by more than
// mayFall.
func fell(now, last accepted) error {
	for _, g := range goals {
		if g.what != now.What {
			continue
		}
		bound, worse := last.Low/(1+mayFall), false
		if g.lowerIsBetter() {
			bound = last.High * (1 + mayFall)
			worse = now.Median > bound
		} else {
			worse = now.Median < bound
		}
		if worse {
			return fmt.Errorf("%s: %s (%s to %s), beyond the bound %s; accepted was %s (%s to %s)", now.What,
				number(now.Median), number(now.Low), number(now.High), number(bound), number(last.Median), number(last.Low), number(last.High))
		}
		return nil
	}
	return fmt.Errorf("%s: there is no such goal", now.What)
}

func readAccepted(name string) ([]accepted, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var all []accepted
	if err := json.Unmarshal(b, &all); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no ratios", name)
	}
	return all, nil
}

func writeAccepted(name string, all []accepted) error {
	if len(all) == 0 {
		return errors.New("the run has none of the ratios that check compares")
	}
	b, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	return write(name, string(b)+"\n")
}
