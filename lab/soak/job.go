package soak

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"
)

// order sends an operator's purge, and reports whether its delivery to Redis is still
// pending.
func (c *call) order(ctx context.Context, text string) (pending bool, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+c.g.admin+"/purge", strings.NewReader(text))
	if err != nil {
		return false, err
	}
	resp, err := c.g.operator.Do(r)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxRead))
	if err != nil {
		return false, err
	}
	here := strings.Contains(string(body), "purged here") || strings.Contains(string(body), "pending")
	if resp.StatusCode/100 != 2 && !here {
		return false, fmt.Errorf("purge: status %d: %s", resp.StatusCode, clip(string(body)))
	}
	return here, nil
}

// Kinds of jobs.
const (
	keyed  = "keyed"  // a POST with Idempotency-Key: may be repeated
	safe   = "safe"   // a GET
	unsafe = "unsafe" // a POST: must not be repeated
)

// A job is an accepted job.
type job struct {
	id, kind string
	at       *gateway // the one that accepted it
	location string
	accepted time.Time

	mu    sync.Mutex
	state string // guarded by mu: the last reported state
	over  bool   // guarded by mu: its outcome is final
}

// job submits a job. Only an acknowledged job counts.
func (c *call) job(ctx context.Context) error {
	j := &job{id: fmt.Sprintf("%d-%d", c.s.o.Seed, c.n), at: c.g, kind: []string{keyed, safe, unsafe}[c.r.IntN(3)]}
	method, fields := http.MethodPost, map[string]string{"Prefer": "respond-async"}
	var body io.Reader = strings.NewReader("x")
	switch j.kind {
	case keyed:
		fields["Idempotency-Key"] = `"` + j.id + `"`
	case safe:
		method, body = http.MethodGet, nil
	}
	resp, err := c.send(ctx, method, "/work/"+j.id, body, fields)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxRead))
	if err != nil {
		return err
	}
	j.location = resp.Header.Get("Location")
	if resp.StatusCode != http.StatusAccepted || j.location == "" {
		return fmt.Errorf("/work/%s: status %d: %s", j.id, resp.StatusCode, clip(string(text)))
	}
	j.accepted = time.Now()
	c.s.mu.Lock()
	c.s.jobs = append(c.s.jobs, j)
	c.s.mu.Unlock()
	return nil
}

// follow polls the unfinished jobs until ctx ends.
func (s *soak) follow(ctx context.Context) {
	r := rand.New(rand.NewPCG(s.o.Seed, 3))
	for rest(ctx, time.Second) {
		s.ask(ctx, r)
	}
}

// open returns the unfinished jobs.
func (s *soak) open() (open []*job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.jobs {
		j.mu.Lock()
		if !j.over {
			open = append(open, j)
		}
		j.mu.Unlock()
	}
	return open
}

// ask polls each unfinished job once.
func (s *soak) ask(ctx context.Context, r *rand.Rand) {
	var all sync.WaitGroup
	limit := make(chan struct{}, 8)
	for _, j := range s.open() {
		g := j.at
		if s.o.Cluster {
			g = s.gateways[r.IntN(len(s.gateways))]
		}
		draw := rand.New(rand.NewPCG(r.Uint64(), 0))
		limit <- struct{}{}
		all.Go(func() {
			defer func() { <-limit }()
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			c := call{s: s, g: g, op: opJob, r: draw, began: time.Now()}
			s.look(ctx, &c, j)
		})
	}
	all.Wait()
}

// look polls a job, and fetches its result once it is done.
func (s *soak) look(ctx context.Context, c *call, j *job) {
	text, _, err := c.get(ctx, j.location, nil, http.StatusOK)
	if err != nil {
		if strings.Contains(err.Error(), "status 404") {
			s.ledger.bad(jobLost, "%s (%s), accepted by weir %d %v ago: weir %d has no such job", j.id, j.kind, j.at.index, time.Since(j.accepted).Round(time.Second), c.g.index)
			j.is("lost", true)
			return
		}
		if ctx.Err() == nil {
			s.ledger.failed(c.g.index, opJob, c.began, "%v", err)
		}
		return
	}
	var status struct{ State, Error string }
	if err := json.Unmarshal(text, &status); err != nil {
		s.ledger.bad(wrongBody, "%s: %v", j.location, err)
		return
	}
	switch status.State {
	case "done":
		body, _, err := c.get(ctx, j.location+"/result", nil, http.StatusOK)
		if err != nil {
			if ctx.Err() == nil {
				s.ledger.failed(c.g.index, opJob, c.began, "%v", err)
			}
			return
		}
		if _, err := versionOf(body, "/work/"+j.id); err != nil {
			s.ledger.bad(wrongBody, "the result of job %s: %v", j.id, err)
		}
		j.is("done", true)
	case "dead", "failed", "canceled":
		j.is(status.State, true)
		if j.kind != unsafe {
			s.ledger.bad(jobLost, "%s (%s) is %s: %s", j.id, j.kind, status.State, clip(status.Error))
			return
		}
		// A job that must not be repeated can fail after a fault, with an error.
		s.ledger.failed(j.at.index, opUnsafe, j.accepted, "job %s is %s: %s", j.id, status.State, clip(status.Error))
	default:
		j.is(status.State, false)
	}
}

// opUnsafe is a job that must not be repeated, from its acceptance to its end.
const opUnsafe = "job, not repeatable"

func (j *job) is(state string, over bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.state, j.over = state, over
}

// judgeJobs is called when all faults have been repaired and all jobs have had time
// to end.
func (s *soak) judgeJobs() {
	for _, j := range s.open() {
		s.ledger.bad(jobLost, "%s (%s), accepted by weir %d %v ago, is still %q", j.id, j.kind, j.at.index, time.Since(j.accepted).Round(time.Second), j.state)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.jobs {
		runs := s.source.runsOf(j.id)
		done := 0
		for _, r := range runs {
			if !r.ended.IsZero() {
				done++
			}
		}
		switch {
		case j.kind == unsafe && len(runs) > 1:
			s.ledger.bad(jobTwice, "%s must not be repeated, and was begun %d times", j.id, len(runs))
		case done > 1 && !s.ledger.explained(j.at.index, opUnsafe, runs[0].begun, runs[len(runs)-1].begun.Add(jobLease)):
			s.ledger.bad(jobTwice, "%s was done %d times, without a fault in between", j.id, done)
		case j.state == "done" && done == 0:
			s.ledger.bad(wrongBody, "job %s is done, but its work was never done", j.id)
		}
	}
}
