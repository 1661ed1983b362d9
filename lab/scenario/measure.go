package scenario

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/lab/internal/cpu"
	"github.com/weir-go/weir/lab/load"
	"github.com/weir-go/weir/lab/result"
)

// A Job is one measurement: the load, its target, and its name.
type Job struct {
	// Load is the load to send. URLs that begin with a slash are paths of the
	// service; without any URL it is the service's root.
	Load load.Spec

	Variant string  // empty: the service's variant
	Setting string  // see result.Measurement
	X       float64 // likewise
	Round   int     // likewise

	// Beside are further services that take part, behind the first or next to it.
	// They are reset too, and their reports are added.
	Beside []*Server

	// Warm leaves the service as it is: nothing is reset before the load.
	Warm bool

	// MayDie says that the load may kill a service. A service that died now or
	// earlier is not an error: the measurement counts it in its Values as
	// ProcessDied. A dead service cannot be reset, so this requires Warm.
	MayDie bool

	// After is called when the load is over and the services have reported, before
	// the measurement is recorded. It adds results from after the load.
	After func(ctx context.Context, m *result.Measurement) error

	// During runs concurrently with the load, for events during it. Its ctx is
	// canceled when the load ends.
	During func(ctx context.Context) error
}

// Measure resets the service, sends the load, and records the measurement. Without a
// service (nil) the load's URLs are absolute, and the source's counters are not read.
// Calls to the source during a warm-up do not count.
func (l *Lab) Measure(ctx context.Context, s *Server, j Job) (result.Measurement, error) {
	j.Load.URLs = s.urls(j.Load.URLs)
	return l.measure(ctx, s, j, func(ctx context.Context) (result.Measurement, error) {
		spec := j.Load
		spec.Warmup, spec.WarmupRequests = 0, 0
		res, err := l.config.load(ctx, spec)
		if err != nil {
			return result.Measurement{}, err
		}
		return l.config.measured(spec, res), nil
	})
}

// warmUp sends the load's warm-up.
func (l *Lab) warmUp(ctx context.Context, spec load.Spec) error {
	if spec.Warmup == 0 && spec.WarmupRequests == 0 {
		return nil
	}
	spec.Duration, spec.Requests = spec.Warmup, spec.WarmupRequests
	spec.Warmup, spec.WarmupRequests = 0, 0
	_, err := l.config.load(ctx, spec)
	return err
}

// ProcessDied names the number of services that a load killed.
const ProcessDied = "process died"

// MeasureBy is Measure with a load that the scenario itself sends, with send: callers
// that hang up, for example. The measurement that send returns needs no names.
func (l *Lab) MeasureBy(ctx context.Context, s *Server, j Job, send func(context.Context) (result.Measurement, error)) (result.Measurement, error) {
	return l.measure(ctx, s, j, send)
}

// MeasureTogether is MeasureBy for several variants under load at the same time, to
// save time: a minute for each becomes a minute for all. They share the machine, so
// it is for small loads. send returns a measurement for each service, in the same
// order.
func (l *Lab) MeasureTogether(ctx context.Context, services []*Server, send func(context.Context) ([]result.Measurement, error)) error {
	l.Step("%s, %d variants at once", l.scenario.Name, len(services))
	defer l.progress.Close()
	if err := l.ready(ctx, services, Job{}); err != nil {
		return err
	}
	all, err := send(ctx)
	if err != nil {
		return err
	}
	for i, s := range services {
		v, err := s.seen(ctx)
		if err != nil {
			return err
		}
		all[i].Variant = s.Variant
		add(&all[i], v)
		l.Record(all[i])
	}
	return nil
}

// urls returns the URLs of paths at the service.
func (s *Server) urls(paths []string) []string {
	if s == nil {
		return paths
	}
	if len(paths) == 0 {
		return []string{s.URL + "/"}
	}
	var urls []string
	for _, p := range paths {
		if strings.HasPrefix(p, "/") {
			p = s.URL + p
		}
		urls = append(urls, p)
	}
	return urls
}

// measure sends the load with send and adds the reports of the services.
func (l *Lab) measure(ctx context.Context, s *Server, j Job, send func(context.Context) (result.Measurement, error)) (result.Measurement, error) {
	services, name := j.Beside, j.Variant
	if s != nil {
		services, name = append([]*Server{s}, j.Beside...), cmp.Or(j.Variant, s.Variant)
	}
	began := time.Now()
	l.progress.Start(l.title(name, j), func() string { return time.Since(began).Round(time.Second).String() })
	defer l.progress.Close()
	if err := l.ready(ctx, services, j); err != nil {
		return result.Measurement{}, err
	}
	before, engines := servicesCPU(services), l.enginesCPU()
	m, err := l.send(ctx, j, send)
	if err != nil {
		return result.Measurement{}, fmt.Errorf("load on %s: %w", name, err)
	}
	m.Variant, m.Setting, m.X, m.Round = name, j.Setting, j.X, j.Round
	if m.CPU != nil && m.Seconds > 0 {
		m.CPU.Service = (servicesCPU(services) - before).Seconds() / m.Seconds
		m.CPU.Engines = (l.enginesCPU() - engines).Seconds() / m.Seconds
	}
	for _, s := range services {
		if j.MayDie && s.Ended() {
			add(&m, seen{Values: map[string]float64{ProcessDied: 1}})
			continue
		}
		v, err := s.seen(ctx)
		if err != nil {
			return result.Measurement{}, err
		}
		add(&m, v)
	}
	if j.After != nil {
		if err := j.After(ctx, &m); err != nil {
			return result.Measurement{}, err
		}
	}
	l.Record(m)
	l.progress.Done(l.said(m))
	return m, nil
}

// title is the name of a measurement in a progress line.
func (l *Lab) title(name string, j Job) string {
	text := l.scenario.Name + ", " + name
	if j.Setting != "" {
		text += ", " + j.Setting
	}
	if j.Round > 0 {
		text += fmt.Sprintf(", round %d", j.Round)
	}
	return text
}

// ready resets the services, warms them up, and begins a measurement.
func (l *Lab) ready(ctx context.Context, services []*Server, j Job) error {
	for _, s := range services {
		if j.Warm {
			continue
		}
		if err := s.Reset(ctx); err != nil {
			return err
		}
	}
	if err := l.warmUp(ctx, j.Load); err != nil {
		return err
	}
	for _, s := range services {
		if j.MayDie && s.Ended() {
			continue
		}
		if err := s.begin(ctx); err != nil {
			return err
		}
	}
	return nil
}

// send sends the load, with Job.During running concurrently.
func (l *Lab) send(ctx context.Context, j Job, send func(context.Context) (result.Measurement, error)) (result.Measurement, error) {
	if j.During == nil {
		return send(ctx)
	}
	aside, end := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- j.During(aside) }()
	m, err := send(ctx)
	end()
	if besides := <-done; besides != nil && !errors.Is(besides, context.Canceled) {
		err = errors.Join(err, besides)
	}
	return m, err
}

// said summarizes a measurement for a progress line.
func (l *Lab) said(m result.Measurement) string {
	text := fmt.Sprintf("%d answers in %.1f s", m.Good, m.Seconds)
	if m.Latency != nil {
		text += fmt.Sprintf(", p99 %.3g ms", m.Latency.P99)
	}
	if m.Failures > 0 {
		text += fmt.Sprintf(", %d failed", m.Failures)
	}
	if m.Source != nil {
		text += fmt.Sprintf(", %d calls to the source", m.Source.Calls)
	}
	return text
}

// add adds a service's report to m.
func add(m *result.Measurement, v seen) {
	if v.Source != nil {
		if m.Source == nil {
			m.Source = new(result.Source)
		}
		sum := m.Source.MeanMS*float64(m.Source.Calls) + v.Source.MeanMS*float64(v.Source.Calls)
		m.Source.Calls += v.Source.Calls
		m.Source.Most += v.Source.Most
		m.Source.LongestMS = max(m.Source.LongestMS, v.Source.LongestMS)
		m.Source.MeanMS = sum / float64(max(1, m.Source.Calls))
	}
	m.Series = append(m.Series, v.Series...)
	for name, value := range v.Values {
		if m.Values == nil {
			m.Values = make(map[string]float64)
		}
		m.Values[name] += value
	}
}

func servicesCPU(services []*Server) time.Duration {
	var sum time.Duration
	for _, s := range services {
		t, _ := cpu.Times(s.Pid()) // a process that has ended uses no more CPU
		sum += t
	}
	return sum
}

// load runs the load generator in a separate process.
func (c Config) load(ctx context.Context, spec load.Spec) (load.Result, error) {
	var res load.Result
	text, err := json.Marshal(spec)
	if err != nil {
		return res, err
	}
	out, err := c.generate(ctx, c.child(roleLoad), text)
	if err != nil {
		return res, err
	}
	return res, json.Unmarshal(out, &res)
}

// measured converts the result of a load generator to a measurement.
func (c Config) measured(spec load.Spec, r load.Result) result.Measurement {
	m := result.Measurement{
		Load:         spec.String(),
		Requests:     r.Requests,
		Good:         r.Good,
		Failures:     r.Failures,
		FirstFailure: r.FirstFailure,
		Statuses:     r.Statuses,
		Seconds:      r.Elapsed.Seconds(),
		PerSecond:    r.PerSecond(),
		CPU:          &result.CPU{Generator: r.CPUTime.Seconds() / max(r.Elapsed.Seconds(), 1e-9), Pinned: c.pinned()},
		Series:       []result.Series{goodAnswers(r)},
	}
	if r.LateStarts > 0 {
		m.Values = map[string]float64{LateStarts: float64(r.LateStarts)}
	}
	if r.Good == 0 {
		return m
	}
	m.Latency = &result.Latency{
		P50:     ms(r.Percentile(50)),
		P90:     ms(r.Percentile(90)),
		P99:     ms(r.Percentile(99)),
		P999:    ms(r.Percentile(99.9)),
		Slowest: ms(r.Slowest),
		Mean:    ms(r.Mean()),
	}
	for _, p := range r.Distribution() {
		m.Latency.Distribution = append(m.Latency.Distribution, result.Point{MS: brief(p.LatencyMS), Share: p.Share})
	}
	return m
}

// LateStarts names the number of requests of an open loop that came due while the
// maximum number of requests was in flight.
const LateStarts = "requests sent late"

func goodAnswers(r load.Result) result.Series {
	s := result.Series{Name: result.GoodAnswers, Unit: "answers/s", EveryMS: float64(r.EveryMS), Values: []float64{}}
	for _, n := range r.AnswersOverTime {
		s.Values = append(s.Values, brief(float64(n)*1000/float64(r.EveryMS)))
	}
	return s
}

// brief rounds to four significant digits, more than a histogram resolves: a results
// file has a hundred thousand such numbers.
func brief(v float64) float64 {
	short, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 4, 64), 64)
	if err != nil {
		return v
	}
	return short
}
