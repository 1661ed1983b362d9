package scenarios

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/lab/load"
	"github.com/weir-go/weir/lab/result"
	"github.com/weir-go/weir/lab/scenario"
)

var gatewayStampede = scenario.Scenario{
	Name:    "gateway-stampede",
	Title:   "A stampede on a cold cache",
	Asks:    "A crowd requests the same object, which is not in the gateway's cache. How many calls reach the origin, how long does the crowd wait, and what if the response cannot be stored, arrives slowly, or the first client hangs up?",
	Needs:   gatewayNeeds,
	Service: gatewayService,
	Run:     runStampede,
}

// The settings of gateway-stampede.
const (
	coldObject = "cold object"
	slowBody   = "a body that comes slowly"
	leaderGone = "the first hangs up"
)

func waveName(i int) string { return fmt.Sprintf("not to be kept, wave %d", i) }

func runStampede(ctx context.Context, l *scenario.Lab) error {
	set := originSetup{Wait: scenario.Size(l, 200*time.Millisecond, 100*time.Millisecond)}
	origin, err := l.Serve(ctx, theOrigin, set)
	if err != nil {
		return err
	}
	fronts, err := startFronts(ctx, l, origin, gatewaySetup{Calls: scenario.Size(l, 20, 6)}, caching...)
	if err != nil {
		return err
	}
	// Caddy's bound would reject requests that the others queue.
	none, err := startFronts(ctx, l, origin, gatewaySetup{}, byCaddy)
	if err != nil {
		return err
	}
	s := stampede{l: l, origin: origin, few: scenario.Size(l, 20, 6), waves: scenario.Size(l, 3, 2), originSetup: set}
	for round := range scenario.Size(l, 5, 1) {
		for _, f := range slices.Concat(fronts, none) {
			if err := s.crowd(ctx, f, round+1); err != nil {
				return err
			}
		}
	}
	for _, f := range slices.Concat(fronts, none) {
		if err := s.trickle(ctx, f); err != nil {
			return err
		}
		if err := s.notKept(ctx, f); err != nil {
			return err
		}
		if err := s.leader(ctx, f); err != nil {
			return err
		}
	}
	s.judge()
	return nil
}

// A stampede is the scenario while it runs.
type stampede struct {
	l      *scenario.Lab
	origin *scenario.Server
	few    int // number of clients when it is not the crowd
	waves  int
	originSetup
}

// crowd sends one request over each of many open connections.
func (s stampede) crowd(ctx context.Context, f front, round int) error {
	n := scenario.Size(s.l, 1000, 50)
	_, err := s.l.Measure(ctx, s.origin, scenario.Job{
		Variant: f.variant, Setting: coldObject, Round: round, Beside: f.beside(),
		Load: load.Spec{URLs: []string{f.url + uniquely("slow")}, Clients: n, Requests: n, Connected: true, Timeout: patience, ExpectBody: originSays},
	})
	return err
}

// Names of the values measured for a body that arrives slowly.
const (
	firstByteOfLeader    = "first byte of the first, ms"
	firstByteOfFollowers = "first byte of the others, after that of the first, ms"
)

// trickle sends a few requests for a response whose body arrives slowly. One is sent
// before the others, and all before the response headers arrive.
func (s stampede) trickle(ctx context.Context, f front) error {
	url := f.url + uniquely("trickle")
	job := scenario.Job{Variant: f.variant, Setting: slowBody, Beside: f.beside()}
	m, err := s.l.MeasureBy(ctx, s.origin, job, func(ctx context.Context) (result.Measurement, error) {
		client := newClient(patience)
		defer client.CloseIdleConnections()
		var all sync.WaitGroup
		bodies := make([]slowly, 1+s.few)
		start := time.Now()
		for i := range bodies {
			all.Go(func() { bodies[i] = read(ctx, client, url, start) })
			if i == 0 {
				rest(ctx, s.Wait/4)
			}
		}
		all.Wait()
		return tallySlowly(bodies, time.Since(start)), nil
	})
	if err != nil {
		return err
	}
	s.l.Check(f.variant+", "+slowBody+": all clients get the whole body", m.Failures == 0, "%d of %d; %s", m.Good, m.Requests, m.FirstFailure)
	return nil
}

// A slowly is the outcome of a request, with the time of the body's first byte.
type slowly struct {
	reply
	first time.Duration // since the start
}

func read(ctx context.Context, client *http.Client, url string, start time.Time) (b slowly) {
	defer func() { b.took = time.Since(start) }()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		b.err = err
		return b
	}
	resp, err := client.Do(req)
	if err != nil {
		b.err = err
		return b
	}
	defer resp.Body.Close()
	b.status = resp.StatusCode
	one := make([]byte, 1)
	if _, b.err = io.ReadFull(resp.Body, one); b.err != nil {
		return b
	}
	b.first = time.Since(start)
	n, err := io.Copy(io.Discard, resp.Body)
	want := int64(1+originAnswers["trickle"].chunks)*int64(len(originJSON)) - 1
	if b.err = err; err == nil && (n != want || b.status != http.StatusOK) {
		b.err = fmt.Errorf("status %d, %d bytes after the first; want %d", b.status, n, want)
	}
	return b
}

func tallySlowly(bodies []slowly, elapsed time.Duration) result.Measurement {
	var replies []reply
	last := bodies[1].first
	for _, b := range bodies {
		replies = append(replies, b.reply)
	}
	for _, b := range bodies[1:] {
		last = max(last, b.first)
	}
	m := tally(fmt.Sprintf("1 client, then %d more before the response headers", len(bodies)-1), replies, elapsed)
	m.Values = map[string]float64{
		firstByteOfLeader:    bodies[0].first.Seconds() * 1000,
		firstByteOfFollowers: max(0, last-bodies[0].first).Seconds() * 1000,
	}
	return m
}

// notKept sends waves of a few concurrent requests for a response that may not be
// stored.
func (s stampede) notKept(ctx context.Context, f front) error {
	url := f.url + uniquely("private")
	for i := 1; i <= s.waves; i++ {
		job := scenario.Job{Variant: f.variant, Setting: waveName(i), Beside: f.beside()}
		m, err := s.l.MeasureBy(ctx, s.origin, job, func(ctx context.Context) (result.Measurement, error) {
			client := newClient(patience)
			defer client.CloseIdleConnections()
			c := send(s.few, client, url, func(int) context.Context { return ctx })
			replies := c.wait()
			return tally(fmt.Sprintf("%d clients at once", s.few), replies, time.Since(c.start)), nil
		})
		if err != nil {
			return err
		}
		s.l.Check(f.variant+", "+waveName(i)+": each request causes its own call", int(m.Good) == s.few && int(m.Source.Calls) == s.few,
			"%d answers, %d calls; %s", m.Good, m.Source.Calls, m.FirstFailure)
	}
	return nil
}

// leader sends a few requests at once. The client of the first one hangs up while the
// origin is working.
func (s stampede) leader(ctx context.Context, f front) error {
	url := f.url + uniquely("slower")
	job := scenario.Job{Variant: f.variant, Setting: leaderGone, Beside: f.beside()}
	_, err := s.l.MeasureBy(ctx, s.origin, job, func(ctx context.Context) (result.Measurement, error) {
		client := newClient(patience)
		defer client.CloseIdleConnections()
		leaves, hangUp := context.WithCancel(ctx)
		defer hangUp()
		leader := send(1, client, url, func(int) context.Context { return leaves })
		rest(ctx, s.Wait/4)
		others := send(s.few, client, url, func(int) context.Context { return ctx })
		rest(ctx, s.Wait/4)
		hangUp()
		leader.wait()
		replies := others.wait()
		return tally(fmt.Sprintf("1 client that hangs up, %d that stay", s.few), replies, time.Since(others.start)), nil
	})
	return err
}

func (s stampede) judge() {
	origin := float64(s.Wait.Milliseconds())
	shared := result.Table{Title: fmt.Sprintf("One response for all; the origin takes %.0f ms", origin), Head: []string{
		"", "cold object: calls", "slowest, ms", "others' first byte, ms later", "the first leaves: failed", "calls",
	}}
	alone := result.Table{Title: fmt.Sprintf("%d at once, for a response that may not be stored; the origin takes %.0f ms", s.few, 2*origin), Head: []string{""}}
	for i := 1; i <= s.waves; i++ {
		alone.Head = append(alone.Head, fmt.Sprintf("wave %d: slowest, ms", i))
	}
	for _, v := range allFronts {
		failed := result.Groups(s.l.Measurements(v, coldObject))[0].Failures()
		s.l.Check(v+", "+coldObject+": no request fails", failed == 0, "%d failed", failed)
		cold, slow, gone := medianOf(s.l, v, coldObject), medianOf(s.l, v, slowBody), medianOf(s.l, v, leaderGone)
		shared.Cells = append(shared.Cells, []string{
			v, fmt.Sprint(mostCalls(s.l, v)), valueOf(slowestMS(cold), 0), valueOf(slow.Values[firstByteOfFollowers], 1), fmt.Sprint(gone.Failures), fmt.Sprint(gone.Source.Calls),
		})
		row := []string{v}
		for i := 1; i <= s.waves; i++ {
			row = append(row, valueOf(slowestMS(medianOf(s.l, v, waveName(i))), 0))
		}
		alone.Cells = append(alone.Cells, row)
	}
	s.l.Table(shared)
	s.l.Table(alone)
	s.judgeWeir(origin)
}

// judgeWeir checks the requirements on weir.
func (s stampede) judgeWeir(origin float64) {
	cold, slow, gone := medianOf(s.l, shielded, coldObject), medianOf(s.l, shielded, slowBody), medianOf(s.l, shielded, leaderGone)
	s.l.Check("weir, "+coldObject+": one call, always", mostCalls(s.l, shielded) == 1, "%d", mostCalls(s.l, shielded))
	s.l.CheckTime("weir, "+coldObject+": the slowest within 50 ms of the origin's time", slowestMS(cold) <= origin+50, "%.0f ms, median of the rounds", slowestMS(cold))
	s.l.Check("weir, "+slowBody+": one call", slow.Source.Calls == 1, "%d", slow.Source.Calls)
	s.l.CheckTime("weir, "+slowBody+": the others' first byte within 10 ms of the first's", slow.Values[firstByteOfFollowers] <= 10, "%.1f ms", slow.Values[firstByteOfFollowers])
	s.l.Check("weir, "+leaderGone+": no other request fails, one call", gone.Failures == 0 && gone.Source.Calls == 1, "%d failed, %d calls", gone.Failures, gone.Source.Calls)
	first := slowestMS(medianOf(s.l, shielded, waveName(1)))
	s.l.CheckTime("weir, not to be kept: the first wave within twice the origin's time and 100 ms", first <= 4*origin+100, "%.0f ms", first)
	for i := 2; i <= s.waves; i++ {
		later := slowestMS(medianOf(s.l, shielded, waveName(i)))
		s.l.CheckTime(fmt.Sprintf("weir, %s: within the origin's time and 100 ms", waveName(i)), later <= 2*origin+100, "%.0f ms", later)
	}
	without := medianOf(s.l, byCaddy, coldObject)
	s.l.Row(result.NewRow("calls for a cold object, without a cache → weir", "calls", result.Lower).
		Here(float64(without.Source.Calls), float64(cold.Source.Calls)))
}

// mostCalls is the highest number of calls that a round for a cold object has
// caused.
func mostCalls(l *scenario.Lab, variant string) (most int64) {
	for _, m := range l.Measurements(variant, coldObject) {
		most = max(most, m.Source.Calls)
	}
	return most
}
