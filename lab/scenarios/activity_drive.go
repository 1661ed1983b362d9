package scenarios

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	closed "github.com/weir-go/weir/app/load"
	"github.com/weir-go/weir/lab/load"
	"github.com/weir-go/weir/lab/result"
	"github.com/weir-go/weir/lab/scenario"
)

// A drive is a load without HTTP: callers in the service's own process, each of which
// inserts again as soon as its last insert has finished.
type drive struct {
	Callers  int
	Duration time.Duration
}

// driven is the result of a drive.
type driven struct {
	Result  closed.Result
	Failure string // the first
}

func (a *activities) handleDrive(w http.ResponseWriter, r *http.Request) {
	var d drive
	err := json.Unmarshal([]byte(r.URL.Query().Get("drive")), &d)
	if err == nil && (d.Callers < 1 || d.Duration <= 0) {
		err = fmt.Errorf("drive of %d callers for %v; want both above 0", d.Callers, d.Duration)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var out driven
	out.Result, err = closed.New(d.Callers, d.Duration, func(ctx context.Context, _ int) error {
		_, err := a.insertNew(context.WithoutCancel(ctx))
		return err
	}).Run(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if out.Result.FirstFailure != nil {
		out.Failure, out.Result.FirstFailure = out.Result.FirstFailure.Error(), nil
	}
	json.NewEncoder(w).Encode(out) //nolint:errcheck // the lab is gone
}

func (d driven) measurement(load string) result.Measurement {
	r := d.Result
	m := result.Measurement{
		Load:         load,
		Requests:     r.Requests,
		Good:         r.Requests - r.Failures,
		Failures:     r.Failures,
		FirstFailure: d.Failure,
		Seconds:      r.Elapsed.Seconds(),
		CPU:          new(result.CPU),
	}
	m.PerSecond = float64(m.Good) / m.Seconds
	if m.Good > 0 {
		m.Latency = &result.Latency{P50: ms(r.P50), P99: ms(r.P99), Slowest: ms(r.Slowest)}
	}
	return m
}

// drive measures with callers in the service's own process.
func (a *activityRun) drive(ctx context.Context, s *scenario.Server, job scenario.Job) (result.Measurement, error) {
	callers, duration := job.Load.Clients, job.Load.Duration
	job.Load = load.Spec{} // nothing is sent over HTTP
	return a.lab.MeasureBy(ctx, s, job, func(ctx context.Context) (result.Measurement, error) {
		d, err := json.Marshal(drive{callers, duration})
		if err != nil {
			return result.Measurement{}, err
		}
		var out driven
		if err := control(ctx, s, "/drive?drive="+url.QueryEscape(string(d)), &out); err != nil {
			return result.Measurement{}, err
		}
		return out.measurement(fmt.Sprintf("%d callers in the service, %v", callers, duration)), nil
	})
}

// control posts to the service's control and decodes the response into v.
func control(ctx context.Context, s *scenario.Server, path string, v any) error {
	text, err := s.Control(ctx, path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("response of %s to %s: %w", s.Variant, path, err)
	}
	return nil
}
