package cli

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/weir-go/weir/app/command"
	"github.com/weir-go/weir/lab/load"
	"github.com/weir-go/weir/lab/result"
	"github.com/weir-go/weir/lab/scenario"
)

// Bounds of the flags of compare. Every client, and every request in flight of an
// open loop, uses a file descriptor.
var (
	clientSpan   = command.Span[int]{Least: 1, Most: 10_000}
	rateSpan     = command.Span[int]{Least: 1, Most: 100_000}
	roundSpan    = command.Span[int]{Least: 1, Most: 1000}
	durationSpan = command.Span[time.Duration]{Least: 100 * time.Millisecond, Most: 10 * time.Minute}
	timeoutSpan  = command.Span[time.Duration]{Least: time.Millisecond, Most: 10 * time.Minute}
)

// compareCmd is weir-lab compare.
type compareCmd struct {
	A           string   `arg:"" name:"url-a" help:"The first URL, http://host:port/path."`
	B           string   `arg:"" name:"url-b" help:"The second URL, whose figures are divided by the first's."`
	Clients     string   `default:"64" placeholder:"N" help:"Clients of a closed loop, each of which sends its next request as soon as the last one is answered (${clients})."`
	Rate        string   `placeholder:"N" help:"Requests per second of an open loop, instead of clients: they are sent whether or not earlier ones are answered (${rates})."`
	Duration    string   `default:"3s" placeholder:"TIME" help:"How long each URL is measured in a round (${durations})."`
	Rounds      string   `default:"10" placeholder:"N" help:"How often each URL is measured (${rounds}). Six or more give a 95 % interval."`
	Timeout     string   `default:"10s" placeholder:"TIME" help:"How long a request may take (${timeouts})."`
	NoKeepAlive bool     `help:"A new connection for every request."`
	Header      []string `placeholder:"NAME:VALUE" help:"A header field to send. May be repeated."`
	Expect      string   `placeholder:"TEXT" help:"A response without this text counts as failed."`
	Out         string   `default:"lab-report" placeholder:"DIR" help:"Folder for the results and the report."`
	JSON        bool     `name:"json" help:"Write the results to standard output, one JSON object per line, instead of tables."`
}

// compareVars are the variables of the flags' help.
var compareVars = map[string]string{
	"clients":   command.Numbers(clientSpan),
	"rates":     command.Numbers(rateSpan),
	"rounds":    command.Numbers(roundSpan),
	"durations": command.Durations(durationSpan),
	"timeouts":  command.Durations(timeoutSpan),
}

// Help is the longer part of weir-lab compare --help.
func (compareCmd) Help() string {
	return `Both URLs get the same load, one after the other, in rounds that alternate the order. The ratio of a round is B's figure divided by A's, so a temporary slowdown of the machine affects both.

A closed loop measures throughput and slows down with its target. To measure traffic that keeps arriving, use --rate: latency then counts from the time at which a request was due.

Examples:

    weir-lab compare http://127.0.0.1:8080/item/1 http://127.0.0.1:9090/item/1
    weir-lab compare --rate 500 --duration 10s http://127.0.0.1:8080/ http://127.0.0.1:9090/

Exit code: 0 done; 1 failed or interrupted; 2 wrong usage.`
}

// A comparison is a parsed command line of weir-lab compare.
type comparison struct {
	urls   [2]string
	rounds int
	load   load.Spec
}

// plan reads the flags, and returns all their faults.
func (c *compareCmd) plan() (comparison, error) {
	var f command.Faults
	p := comparison{urls: [2]string{c.A, c.B}, rounds: f.Number("rounds", c.Rounds, roundSpan)}
	p.load = load.Spec{
		Mode:        load.Closed,
		Duration:    f.Duration("duration", c.Duration, durationSpan),
		Timeout:     f.Duration("timeout", c.Timeout, timeoutSpan),
		NoKeepAlive: c.NoKeepAlive,
		ExpectBody:  c.Expect,
		Header:      map[string]string{},
	}
	if c.Rate != "" {
		p.load.Mode = load.Open
		p.load.Rate = float64(f.Number("rate", c.Rate, rateSpan))
	} else {
		p.load.Clients = f.Number("clients", c.Clients, clientSpan)
	}
	for _, h := range c.Header {
		name, value, ok := strings.Cut(h, ":")
		if !ok || strings.TrimSpace(name) == "" {
			// Omit the value, which may be a secret.
			f = append(f, fmt.Errorf("--header=%s: want NAME:VALUE", name))
		}
		p.load.Header[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	for _, address := range p.urls {
		if u, err := url.Parse(address); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			f = append(f, fmt.Errorf("%s: want a URL, http://host:port/path or https", address))
		}
	}
	if len(f) > 0 {
		return comparison{}, &command.UsageError{Command: "weir-lab compare", Faults: f}
	}
	return p, nil
}

// Run is the command.
func (c *compareCmd) Run(r *command.Run) error {
	p, err := c.plan()
	if err != nil {
		return err
	}
	s, err := newSession(r, c.Out, c.JSON, scenario.Config{})
	if err != nil {
		return err
	}
	return s.run(r, []scenario.Scenario{{
		Name:  "compare",
		Title: "Two URLs",
		Asks:  fmt.Sprintf("How does B, %s, compare with A, %s?", p.urls[1], p.urls[0]),
		Run:   p.run,
	}})
}

// The variants of a comparison.
var sides = [2]string{"A", "B"}

// run measures both URLs in turn.
func (p comparison) run(ctx context.Context, l *scenario.Lab) error {
	for round := range p.rounds {
		for i := range p.urls {
			side := (i + round) % 2
			j := scenario.Job{Variant: sides[side], Round: round + 1, Load: p.load}
			j.Load.URLs = []string{p.urls[side]}
			m, err := l.Measure(ctx, nil, j)
			if err != nil {
				return err
			}
			if m.Good == 0 {
				return fmt.Errorf("%s gives no successful response: %s", p.urls[side], m.FirstFailure)
			}
		}
	}
	p.tell(l)
	return nil
}

// tell records the ratios.
func (p comparison) tell(l *scenario.Lab) {
	a, b := l.Measurements(sides[0], ""), l.Measurements(sides[1], "")
	t := result.Table{Title: fmt.Sprintf("B divided by A, median of %d rounds", p.rounds), Head: []string{"figure", "B / A", "95 % interval"}}
	for _, f := range []struct {
		name string
		of   func(result.Measurement) float64
	}{
		{"successful responses per second", func(m result.Measurement) float64 { return m.PerSecond }},
		{"p50", func(m result.Measurement) float64 { return m.Latency.P50 }},
		{"p99", func(m result.Measurement) float64 { return m.Latency.P99 }},
		{"slowest", func(m result.Measurement) float64 { return m.Latency.Slowest }},
	} {
		ratio := result.Ratio(each(b, f.of), each(a, f.of))
		interval := fmt.Sprintf("%.3f to %.3f", ratio.Low, ratio.High)
		if ratio.RangeOnly {
			interval += " (the range: fewer than six rounds)"
		}
		t.Cells = append(t.Cells, []string{f.name, fmt.Sprintf("%.3f", ratio.Median), interval})
	}
	l.Table(t)
	var failed, all int64
	for _, m := range append(a, b...) {
		failed, all = failed+m.Failures, all+m.Requests
	}
	l.Note("%d of %d requests failed.", failed, all)
}

func each(all []result.Measurement, of func(result.Measurement) float64) []float64 {
	var out []float64
	for _, m := range all {
		out = append(out, of(m))
	}
	return out
}
