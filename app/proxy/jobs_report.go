package proxy

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/weir-go/weir/app/proxy/config"
	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/jobshttp"
)

// A jobsLog logs failures that clients cannot see, at most a few lines per second.
type jobsLog struct {
	jobs.NopObserver
	j *jobService
}

// AttemptEnd implements jobs.Observer.
func (l jobsLog) AttemptEnd(ctx context.Context, a jobs.AttemptInfo, end jobs.AttemptEnd) {
	l.Event(ctx, jobs.Event{Kind: end.Kind, Queue: a.Queue, ID: a.ID, Attempt: a.Attempt, Err: end.Err})
}

// Event implements jobs.Observer.
func (l jobsLog) Event(ctx context.Context, e jobs.Event) {
	if (e.Kind == jobs.EventTrouble || e.Kind == jobs.EventEnded) && l.j.logLimit.Allow() {
		text := "a job failed"
		if e.Kind == jobs.EventTrouble {
			text = "a worker cannot reach the job server"
		}
		l.j.p.logger.Log(ctx, slog.LevelWarn, text, "queue", e.Queue, "job", e.ID, "attempt", e.Attempt, "error", e.Err)
	}
}

// A routeJobsInfo is the part of /stats about one route's jobs in this process.
type routeJobsInfo struct {
	Submitted  uint64 `json:"submitted"`
	Joined     uint64 `json:"joined"`
	Refused    uint64 `json:"refused"`
	Running    int    `json:"running"`
	Started    uint64 `json:"started"`
	Succeeded  uint64 `json:"succeeded"`
	Retried    uint64 `json:"retried"`
	Failed     uint64 `json:"failed"`
	HandedBack uint64 `json:"handed_back"`
	Trouble    uint64 `json:"trouble"`
}

// info is called from any goroutine.
func (j *jobService) info() map[string]routeJobsInfo {
	if j == nil {
		return nil
	}
	all := map[string]routeJobsInfo{}
	for name, d := range *j.routes.Load() {
		s := d.route.Stats()
		i := routeJobsInfo{Submitted: s.Submitted, Joined: s.Joined, Refused: s.Refused}
		if w := d.workers(); w != nil {
			s := w.Stats()
			i.Running, i.Started, i.Succeeded, i.Retried = s.Running, s.Started, s.Succeeded, s.Retried
			i.Failed, i.HandedBack, i.Trouble = s.Ended, s.HandedBack, s.Trouble
		}
		all[name] = i
	}
	return all
}

// asyncSummary describes which requests of a route become jobs.
func asyncSummary(o jobshttp.RouteOptions) string {
	if o.Budget > 0 {
		return fmt.Sprintf("jobs of all, 202 after %v", o.Budget)
	}
	return "jobs on request"
}

// jobsSummary describes in a few words what an accepted job survives, and where it is
// stored.
func jobsSummary(a config.JobsAccess, where string) string {
	kept := map[jobs.Durability]string{
		jobs.DurabilityProcess:  "accepted survives a killed process (process)",
		jobs.DurabilityDisk:     "accepted survives a loss of power (disk)",
		jobs.DurabilityMajority: "accepted survives the loss of some servers (majority)",
	}[durabilityOf(a)]
	makes := fmt.Sprintf("%d at once", a.Concurrency)
	if !a.Workers {
		makes = "made elsewhere"
	}
	return strings.Join([]string{kept, "in " + cmp.Or(where, placeOf(a, false)), "namespace " + a.Namespace, makes}, ", ")
}
