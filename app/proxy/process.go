package proxy

import (
	"os"
	"runtime"
	"time"

	"github.com/weir-go/weir/console/build"
)

// A processInfo is the process's part of /stats.
type processInfo struct {
	Version     string     `json:"version"`
	PID         int        `json:"pid"`
	Go          string     `json:"go"`
	Started     time.Time  `json:"started"`
	UptimeS     float64    `json:"uptime_s"`
	State       string     `json:"state"`
	Goroutines  int        `json:"goroutines"`
	Connections int        `json:"connections"` // of clients
	Requests    int64      `json:"requests"`    // in progress
	Upgrades    int64      `json:"upgrades"`    // that are open
	LinesLeft   uint64     `json:"log_lines_left_out"`
	Reloads     reloadInfo `json:"reloads"`

	Jobs map[string]routeJobsInfo `json:"jobs,omitempty"` // by route
}

// process is called from any goroutine.
func (p *proxy) process() processInfo {
	state := "ready"
	if err := p.ready(); err != nil {
		state = err.Error()
	}
	return processInfo{
		Version:     build.Version(),
		PID:         os.Getpid(),
		Go:          runtime.Version(),
		Started:     p.started.UTC(),
		UptimeS:     time.Since(p.started).Seconds(),
		State:       state,
		Goroutines:  runtime.NumGoroutine(),
		Connections: p.slots.Taken(),
		Requests:    p.public.requests.Load(),
		Upgrades:    p.public.upgrades.Load(),
		LinesLeft:   p.access.Load().LeftOut(),
		Reloads:     p.reloads.get(),
		Jobs:        p.jobs.info(),
	}
}
