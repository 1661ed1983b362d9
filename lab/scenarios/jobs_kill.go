package scenarios

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/weir-go/weir/lab/result"
	"github.com/weir-go/weir/lab/scenario"
)

// workerKilled is the setting in which a worker dies with its jobs.
const workerKilled = "worker killed"

// startedAgain names the time from the kill until the last of its jobs has started
// again.
const startedAgain = "started again after, s"

// killWorker kills a separate worker with SIGKILL, and measures the time until
// another one has started its jobs.
func (r *jobsRun) killWorker(ctx context.Context) error {
	keeper, err := r.lab.Serve(ctx, jobKeeper, r.params)
	if err != nil {
		return err
	}
	p := r.params
	if err := controlJSON(ctx, keeper, "/addr", &p.Addr); err != nil {
		return err
	}
	victim, err := r.lab.Serve(ctx, jobWorker, p)
	if err != nil {
		return err
	}
	var ids []string
	for range r.set.Held {
		var id string
		if err := controlJSON(ctx, keeper, "/submit", &id); err != nil {
			return err
		}
		ids = append(ids, id)
	}
	if err := startedBy(ctx, victim, ids); err != nil {
		return err
	}
	heir, err := r.lab.Serve(ctx, jobWorker, p)
	if err != nil {
		return err
	}
	_, err = r.lab.MeasureBy(ctx, keeper, scenario.Job{Variant: weirDisk, Setting: workerKilled, Warm: true}, func(ctx context.Context) (result.Measurement, error) {
		began := time.Now()
		if err := victim.Kill(); err != nil {
			return result.Measurement{}, err
		}
		err := startedBy(ctx, heir, ids)
		took := time.Since(began).Seconds()
		return result.Measurement{
			Load: fmt.Sprintf("%d jobs of a worker that is killed", len(ids)), Seconds: took,
			Values: map[string]float64{startedAgain: took},
		}, err
	})
	return err
}

// startedBy waits until a worker has started all these jobs.
func startedBy(ctx context.Context, worker *scenario.Server, ids []string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		var started []string
		if err := controlJSON(ctx, worker, "/started", &started); err != nil {
			return err
		}
		if !slices.ContainsFunc(ids, func(id string) bool { return !slices.Contains(started, id) }) {
			return nil
		}
		rest(ctx, 5*time.Millisecond)
	}
}

// controlJSON sends a command to a service and decodes the response.
func controlJSON(ctx context.Context, s *scenario.Server, path string, into any) error {
	answer, err := s.Control(ctx, path)
	if err != nil {
		return err
	}
	return json.Unmarshal(answer, into)
}
