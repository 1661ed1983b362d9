package load

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The output of `h2load` of nghttp2, version 1.
var (
	h2loadElapsed  = regexp.MustCompile(`(?m)^finished in ([\d.]+[a-z]+), `)
	h2loadRate     = regexp.MustCompile(`(?m)^finished in \S+ ([\d.]+) req/s`)
	h2loadGood     = regexp.MustCompile(`(?m)^requests: .* (\d+) succeeded, `)
	h2loadFailed   = regexp.MustCompile(`(?m)^requests: .* (\d+) failed, `)
	h2loadRejected = regexp.MustCompile(`(?m)^status codes: .* (\d+) 4xx, `)
	h2loadBroken   = regexp.MustCompile(`(?m)^status codes: .* (\d+) 5xx`)
	h2loadProtocol = regexp.MustCompile(`(?m)^Application protocol: (h2c?)$`)
	h2loadTime     = regexp.MustCompile(`(?m)^\d+\t([23])\d\d\t(\d+)$`)
)

// ParseH2load reads the output of h2load, run with --log-file=/dev/stdout: the log has
// a line for each response, from which the percentiles are taken. Requests that are
// still in flight at the end of a timed run are not counted. A run that had no
// connection with HTTP/2 is an error.
func ParseH2load(out string) (Tool, error) {
	r := &report{tool: "h2load", text: summaryOf(out)}
	t := Tool{
		Non2xx:    r.count(r.must(h2loadRejected)) + r.count(r.must(h2loadBroken)),
		Seconds:   r.duration(r.must(h2loadElapsed), "").Seconds(),
		PerSecond: r.number(r.must(h2loadRate)),
	}
	r.must(h2loadProtocol)
	failed := r.count(r.must(h2loadFailed)) // including those of a bad status
	t.Failed = failed - t.Non2xx
	t.Complete = r.count(r.must(h2loadGood)) + failed
	var times []time.Duration
	for _, m := range h2loadTime.FindAllStringSubmatch(out, -1) {
		us, err := strconv.ParseInt(m[2], 10, 64)
		r.fail(err)
		times = append(times, time.Duration(us)*time.Microsecond)
	}
	if len(times) > 0 {
		slices.Sort(times)
		t.P50, t.P99, t.Slowest = ranked(times, 50), ranked(times, 99), times[len(times)-1]
	}
	return r.done(t)
}

// summaryOf returns the lines without those of the log, for errors that show them.
func summaryOf(out string) string {
	var b strings.Builder
	for line := range strings.Lines(out) {
		if strings.Count(line, "\t") != 2 {
			b.WriteString(line)
		}
	}
	return b.String()
}

// ranked returns the time that q percent of the sorted times do not exceed.
func ranked(sorted []time.Duration, q int) time.Duration {
	return sorted[(len(sorted)*q+99)/100-1]
}
