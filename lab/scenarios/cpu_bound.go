package scenarios

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"

	"github.com/weir-go/weir/lab/result"
	"github.com/weir-go/weir/lab/scenario"
)

// The published CPU-bound services make and encode this many random texts per
// request, and are limited to this share of a processor.
const (
	encodings = 1000
	heldTo    = 0.2
)

// The lengths in letters of the texts: the handler's and the second service's.
const (
	shortText = 10
	longText  = 50
)

// fromSource lists the details that are only in the published source code.
var fromSource = []string{
	fmt.Sprintf("Each instance is limited to %g CPU.", heldTo),
	fmt.Sprintf("The handler makes %d random texts of %d letters and encodes each to JSON.", encodings, shortText),
}

// encodeMany does the work of a request and returns the last encoding.
func encodeMany(length int) ([]byte, error) {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	text := make([]byte, length)
	var last []byte
	for range encodings {
		for i := range text {
			text[i] = letters[rand.IntN(len(letters))]
		}
		b, err := json.Marshal(string(text))
		if err != nil {
			return nil, err
		}
		last = b
	}
	return last, nil
}

// onConnections is the name of the setting with n connections.
func onConnections(n int) string {
	if n == 1 {
		return "1 connection"
	}
	return fmt.Sprintf("%d connections", n)
}

// serveHeld starts a service that is limited to the share, and reports whether the
// machine allows that.
func serveHeld(ctx context.Context, l *scenario.Lab, variant string, params any) (s *scenario.Server, held bool, err error) {
	return serveHeldTo(ctx, l, heldTo, variant, params)
}

func serveHeldTo(ctx context.Context, l *scenario.Lab, cpus float64, variant string, params any) (s *scenario.Server, held bool, err error) {
	share := l.Share("cpu-bound", cpus)
	if s, err = l.Serve(ctx, variant, params); err != nil {
		return nil, false, err
	}
	return s, share != nil, s.Hold(share)
}

// medianRounds returns the median round of each variant and setting, and checks for
// each that none of its rounds had a failure.
func medianRounds(l *scenario.Lab, variants ...string) []result.Measurement {
	var all, out []result.Measurement
	for _, v := range variants {
		all = append(all, l.Measurements(v, "")...)
	}
	for _, g := range result.Groups(all) {
		m := g.Median
		l.Check(fmt.Sprintf("%s, %s: no request fails", m.Variant, m.Setting), g.Failures() == 0, "%d failed", g.Failures())
		out = append(out, m)
	}
	return out
}

// medianRound returns the median round of one variant and setting.
func medianRound(all []result.Measurement, variant, setting string) result.Measurement {
	for _, m := range all {
		if m.Variant == variant && m.Setting == setting {
			return m
		}
	}
	panic(fmt.Sprintf("scenarios: %q, %q was not measured", variant, setting))
}

// noteShare adds a note if an overloaded service did not get its share because other
// processes used the processors: the figures are then not those of the share.
func noteShare(l *scenario.Lab, m result.Measurement) {
	if m.CPU != nil && m.CPU.Service < 0.9*heldTo {
		l.Note("%s, %s: it got %.2f CPU of its share of %g. The machine was busy, so these figures are too low.", m.Variant, m.Setting, m.CPU.Service, heldTo)
	}
}

// publishedBefore returns r with the only published figure set.
func publishedBefore(r result.Row, before float64) result.Row {
	r.PublishedBefore = &before
	return r
}

// usedTable shows the cost of each request, to tell whether throughput fell because
// requests waited for the share or because they cost more.
func usedTable(title string, all []result.Measurement) result.Table {
	t := result.Table{Title: title, Head: []string{"variant", "setting", "requests/s", "p50, ms", "p99, ms", "CPU of the services", "CPU per request, ms"}}
	for _, m := range all {
		if m.CPU == nil || m.Latency == nil || m.PerSecond == 0 {
			continue
		}
		t.Cells = append(t.Cells, []string{
			m.Variant, m.Setting, fmt.Sprintf("%.0f", m.PerSecond), fmt.Sprintf("%.2f", m.Latency.P50), fmt.Sprintf("%.1f", m.Latency.P99),
			fmt.Sprintf("%.2f", m.CPU.Service), fmt.Sprintf("%.2f", m.CPU.Service/m.PerSecond*1000),
		})
	}
	return t
}
