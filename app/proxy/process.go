package proxy

import (
	"os"
	"runtime"
	"time"

	"github.com/weir-go/weir/app/proxy/tally"
	"github.com/weir-go/weir/console/build"
	"github.com/weir-go/weir/gateway"
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
	Connections int        `json:"connections"`   // of clients
	Requests    int64      `json:"requests"`      // in progress
	Upgrades    int64      `json:"upgrades"`      // that are open
	Resets      uint64     `json:"uploads_reset"` // after an early response
	LinesLeft   uint64     `json:"log_lines_left_out"`
	LinesLost   uint64     `json:"log_lines_lost"` // could not be written
	Reloads     reloadInfo `json:"reloads"`

	// Responses counts what clients received, by route and by class. The empty name has
	// the responses that belong to no route.
	Responses map[string]map[string]uint64 `json:"responses"`

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
		Resets:      p.lingering.Reset(),
		LinesLeft:   p.access.Load().LeftOut(),
		LinesLost:   p.accessOut.Lost() + p.messagesLost.Load(),
		Reloads:     p.reloads.get(),
		Responses:   responses(p.tally.Counts()),
		Jobs:        p.jobs.info(),
	}
}

func responses(all map[string]tally.Counts) map[string]map[string]uint64 {
	out := make(map[string]map[string]uint64, len(all))
	for route, counts := range all {
		out[route] = counts.Map()
	}
	return out
}

// routeNames returns the names of the routes of c.
func routeNames(c gateway.Config) []string {
	var names []string
	for _, r := range c.Routes {
		names = append(names, r.Name)
	}
	return names
}
