package scenario

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/weir-go/weir/lab/engine"
	"github.com/weir-go/weir/lab/internal/proc"
	"github.com/weir-go/weir/lab/load"
	"github.com/weir-go/weir/lab/result"
)

// Ab is Measure with the load of ab: requests requests, clients at a time. The
// service's path is job.Load's first URL.
func (l *Lab) Ab(ctx context.Context, s *Server, requests, clients int, job Job) (result.Measurement, error) {
	return l.tool(ctx, s, job, load.ParseAb, "ab", "-q", "-n", strconv.Itoa(requests), "-c", strconv.Itoa(clients))
}

// Hey is Measure with the load of hey.
func (l *Lab) Hey(ctx context.Context, s *Server, requests, clients int, job Job) (result.Measurement, error) {
	return l.tool(ctx, s, job, load.ParseHey, "hey", "-n", strconv.Itoa(requests), "-c", strconv.Itoa(clients))
}

// Wrk is Measure with the load of wrk: that many connections, with a thread each, for
// d.
func (l *Lab) Wrk(ctx context.Context, s *Server, connections int, d time.Duration, job Job) (result.Measurement, error) {
	return l.WrkThreads(ctx, s, connections, connections, d, job)
}

// WrkThreads is Wrk with that many threads, which share the connections.
func (l *Lab) WrkThreads(ctx context.Context, s *Server, threads, connections int, d time.Duration, job Job) (result.Measurement, error) {
	return l.tool(ctx, s, job, load.ParseWrk, "wrk", "--latency", "-t", strconv.Itoa(threads), "-c", strconv.Itoa(connections), "-d", fmt.Sprintf("%ds", int(d.Seconds())))
}

// H2load is Measure with the load of h2load: that many connections over HTTP/2, each
// with that many streams, for d.
func (l *Lab) H2load(ctx context.Context, s *Server, connections, streams int, d time.Duration, job Job) (result.Measurement, error) {
	return l.tool(ctx, s, job, load.ParseH2load, "h2load", "--log-file=/dev/stdout",
		"-c", strconv.Itoa(connections), "-m", strconv.Itoa(streams), "-D", strconv.Itoa(int(d.Seconds())))
}

// tool sends the load with a load tool. The tool's CPU use counts as the generator's.
func (l *Lab) tool(ctx context.Context, s *Server, j Job, parse func(string) (load.Tool, error), name string, args ...string) (result.Measurement, error) {
	j.Load.URLs = s.urls(j.Load.URLs)
	return l.measure(ctx, s, j, func(ctx context.Context) (result.Measurement, error) {
		cmd, err := engine.Command(ctx, name, slices.Concat(args, headerArgs(j.Load.Header), j.Load.URLs[:1])...)
		if err != nil {
			return result.Measurement{}, err
		}
		out, err := l.config.generate(ctx, cmd, nil)
		if err != nil {
			return result.Measurement{}, err
		}
		t, err := parse(string(out))
		if err != nil {
			return result.Measurement{}, err
		}
		m := fromTool(t)
		m.Load = name + " " + strings.Join(args, " ")
		m.CPU = &result.CPU{Pinned: l.config.pinned()}
		if used := cmd.ProcessState; used != nil && m.Seconds > 0 {
			m.CPU.Generator = (used.UserTime() + used.SystemTime()).Seconds() / m.Seconds
		}
		return m, nil
	})
}

// headerArgs are the arguments by which all tools send these header fields.
func headerArgs(header map[string]string) (args []string) {
	for _, name := range slices.Sorted(maps.Keys(header)) {
		args = append(args, "-H", name+": "+header[name])
	}
	return args
}

// fromTool converts the report of a load tool.
func fromTool(t load.Tool) result.Measurement {
	bad := t.Failed + t.Non2xx
	if t.LengthFailures > 0 {
		bad = max(t.Failed, t.Non2xx) // ab may count a rejection as both
	}
	return result.Measurement{
		Requests:  t.Complete,
		Good:      t.Complete - bad,
		Failures:  bad,
		Statuses:  t.Statuses,
		Seconds:   t.Seconds,
		PerSecond: float64(t.Complete-bad) / t.Seconds,
		// For few requests hey reports no p99; the slowest is used instead.
		Latency: &result.Latency{P50: ms(t.P50), P99: ms(cmp.Or(t.P99, t.Slowest)), Slowest: ms(t.Slowest)},
	}
}

// generate runs a load generator to its end, on its dedicated processors, and returns
// its output. The end of ctx ends it.
func (c Config) generate(ctx context.Context, cmd *exec.Cmd, input []byte) ([]byte, error) {
	var out, log bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), &out, &log
	p, err := proc.StartOn(cmd, syscall.SIGKILL, c.generator)
	if err != nil {
		return nil, err
	}
	select {
	case <-p.Ended():
	case <-ctx.Done():
		p.Stop(syscall.SIGTERM, stopGrace)
		return nil, context.Cause(ctx)
	}
	if err := p.Wait(); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", filepath.Base(cmd.Path), err), errors.New(strings.TrimSpace(log.String()+out.String())))
	}
	return out.Bytes(), nil
}

// Alone runs a program that does its own measuring while nothing else runs, on all
// processors, including the load generator's. The end of ctx interrupts it.
func (l *Lab) Alone(ctx context.Context, cmd *exec.Cmd) error {
	p, err := proc.StartOn(cmd, syscall.SIGINT, l.config.whole)
	if err != nil {
		return err
	}
	select {
	case <-p.Ended():
		return p.Wait()
	case <-ctx.Done():
		p.Stop(syscall.SIGINT, stopGrace)
		return context.Cause(ctx)
	}
}
