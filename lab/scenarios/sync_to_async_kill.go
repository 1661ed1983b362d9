package scenarios

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/lab/result"
	"github.com/weir-go/weir/lab/scenario"
)

// Names of the counts of events.
const (
	jobsAccepted  = "events accepted"
	jobsCompleted = "events completed meanwhile"
	jobsLost      = "events lost"
	jobsTwice     = "calls made again"
	drainedAfter  = "drained after, s"
	waitingThen   = "events waiting when it was killed"
	unanswered    = "events done that were not answered"
	acceptedTill  = "events accepted until it was killed"
)

// drain waits until the second service has processed all events that s accepted, and
// adds to m how long that took and which are missing.
func (r *syncRun) drain(ctx context.Context, s *scenario.Server, m *result.Measurement) error {
	began := time.Now()
	var done int
	if err := controlJSON(ctx, r.second, "/count", &done); err != nil {
		return err
	}
	accepted := make(map[int64]int)
	if err := controlJSON(ctx, s, "/numbers", &accepted); err != nil {
		return err
	}
	found, err := r.reconcile(ctx, accepted)
	if err != nil {
		return err
	}
	if m.Values == nil {
		m.Values = make(map[string]float64)
	}
	m.Values[jobsAccepted], m.Values[jobsCompleted] = float64(len(accepted)), float64(done)
	m.Values[jobsLost], m.Values[jobsTwice] = float64(found.lost), float64(found.twice)
	m.Values[drainedAfter] = found.at.Sub(began).Seconds()
	return nil
}

// A reconciled is the outcome of the accepted events.
type reconciled struct {
	at          time.Time // when the last of them was found done, or counted as lost
	lost, twice int
	others      int // done, but not accepted
}

// reconcile waits until the second service has processed all accepted events. Events
// still missing after three leases without progress are lost.
func (r *syncRun) reconcile(ctx context.Context, accepted map[int64]int) (reconciled, error) {
	silence := 3 * cmp.Or(r.params.Lease, jobs.DefaultLease)
	last, progress := -1, time.Now()
	for ; ; rest(ctx, 20*time.Millisecond) {
		var count int
		if err := controlJSON(ctx, r.second, "/count", &count); err != nil {
			return reconciled{}, err
		}
		f := reconciled{at: time.Now()}
		if count > last {
			last, progress = count, f.at
		}
		silent := f.at.Sub(progress) > silence
		if count < len(accepted) && !silent {
			continue
		}
		done := make(map[int64]int)
		if err := controlJSON(ctx, r.second, "/numbers", &done); err != nil {
			return f, err
		}
		if f.lost, f.twice, f.others = compareEvents(accepted, done); f.lost == 0 || silent {
			return f, nil
		}
	}
}

// compareEvents counts accepted events that are not done, calls beyond the first for
// each event, and events that are done although they were not accepted.
func compareEvents(accepted, done map[int64]int) (lost, twice, others int) {
	for n := range accepted {
		if done[n] == 0 {
			lost++
		}
	}
	for n, times := range done {
		twice += times - 1
		if accepted[n] == 0 {
			others++
		}
	}
	return lost, twice, others
}

// weirKilled is the variant whose process is killed under load.
const weirKilled = "weir, disk, killed in the middle"

// killed sends numbered events, kills the process during that, restarts it on the
// same folder, continues to send, and compares.
func (r *syncRun) killed(ctx context.Context) error {
	s, err := r.lab.Serve(ctx, weirDisk, r.params)
	if err != nil {
		return err
	}
	if err := r.second.Reset(ctx); err != nil {
		return err
	}
	// After the kill the first process gets no requests, so only the time of its end
	// counts.
	m, err := r.lab.MeasureBy(ctx, s, scenario.Job{Variant: weirKilled, Warm: true, MayDie: true},
		func(ctx context.Context) (result.Measurement, error) { return r.killedUnderLoad(ctx, s) })
	if err != nil {
		return err
	}
	l := r.lab
	l.Check(weirKilled+": no accepted event is lost", m.Values[jobsLost] == 0,
		"%.0f of %.0f; %.0f waited when it was killed, %.0f calls were repeated, %.0f events were done although their response was lost",
		m.Values[jobsLost], m.Values[jobsAccepted], m.Values[waitingThen], m.Values[jobsTwice], m.Values[unanswered])
	before := m.Values[acceptedTill]
	after := m.Values[jobsAccepted] - before
	l.Check(weirKilled+": events were accepted before and after", before > 0 && after > 0, "%.0f and %.0f", before, after)
	return nil
}

func (r *syncRun) killedUnderLoad(ctx context.Context, s *scenario.Server) (result.Measurement, error) {
	half := scenario.Size(r.lab, 2*time.Second, 300*time.Millisecond)
	c := &eventClients{}
	c.url.Store(&s.URL)
	began := time.Now()
	stop := c.start(ctx, 3)
	c.more(ctx, half)
	var done int
	err := controlJSON(ctx, r.second, "/count", &done)
	if err == nil {
		err = s.Kill()
	}
	before := c.count()
	again, startErr := r.lab.Serve(ctx, weirDisk, r.params)
	if err == nil {
		err = startErr
	}
	if err == nil {
		c.url.Store(&again.URL)
		c.more(ctx, half)
	}
	stop()
	if err != nil {
		return result.Measurement{}, err
	}
	took := time.Since(began)
	f, err := r.reconcile(ctx, c.accepted.times)
	if err != nil {
		return result.Measurement{}, err
	}
	accepted := len(c.accepted.times)
	// Requests are not counted: they fail while there is no process.
	return result.Measurement{
		Load: fmt.Sprintf("3 clients, for %v before the kill and after", half), Seconds: took.Seconds(),
		Values: map[string]float64{
			jobsAccepted: float64(accepted), acceptedTill: float64(before), waitingThen: float64(before - done),
			jobsLost: float64(f.lost), jobsTwice: float64(f.twice), unanswered: float64(f.others),
			drainedAfter: f.at.Sub(began.Add(took)).Seconds(),
		},
	}, again.Stop()
}

// eventClients send numbered events, and record which of them were accepted.
type eventClients struct {
	url      atomic.Pointer[string] // atomic: it changes while they send
	sent     atomic.Int64           // atomic: the number of the last event
	accepted eventNumbers
}

// start starts n clients. stop ends them and waits.
func (c *eventClients) start(ctx context.Context, n int) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			client := &http.Client{Transport: new(http.Transport), Timeout: patience}
			defer client.CloseIdleConnections()
			for ctx.Err() == nil {
				if !c.send(ctx, client) {
					rest(ctx, 5*time.Millisecond)
				}
			}
		})
	}
	return func() { cancel(); wg.Wait() }
}

// more waits for d, and until few further events have been accepted, which takes
// longer on a busy machine.
func (c *eventClients) more(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	had := c.count()
	rest(ctx, d)
	for c.count() < had+few && ctx.Err() == nil {
		rest(ctx, time.Millisecond)
	}
}

// few is the least number of events accepted before the kill, and after it.
const few = 20

// send sends one event and reports whether it was accepted.
func (c *eventClients) send(ctx context.Context, client *http.Client) bool {
	n := c.sent.Add(1)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/handle?event=%d", *c.url.Load(), n), nil)
	if err != nil {
		return false
	}
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	io.Copy(io.Discard, resp.Body) //nolint:errcheck // the status is what counts
	resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted {
		return false
	}
	c.accepted.note(n)
	return true
}

func (c *eventClients) count() int {
	c.accepted.mu.Lock()
	defer c.accepted.mu.Unlock()
	return len(c.accepted.times)
}
