package load

import "regexp"

// The output of `ab`, of Apache httpd 2.4.
var (
	abSeconds   = regexp.MustCompile(`(?m)^Time taken for tests: +([\d.]+) seconds`)
	abComplete  = regexp.MustCompile(`(?m)^Complete requests: +(\d+)`)
	abFailed    = regexp.MustCompile(`(?m)^Failed requests: +(\d+)`)
	abLength    = regexp.MustCompile(`(?m)^ +\(Connect: .*Length: (\d+)`)
	abNon2xx    = regexp.MustCompile(`(?m)^Non-2xx responses: +(\d+)`)
	abPerSecond = regexp.MustCompile(`(?m)^Requests per second: +([\d.]+)`)
	abP50       = regexp.MustCompile(`(?m)^ +50% +(\d+)$`)
	abP99       = regexp.MustCompile(`(?m)^ +99% +(\d+)$`)
	abSlowest   = regexp.MustCompile(`(?m)^ +100% +(\d+) \(longest request\)$`)
	// ab omits the percentiles for a single request.
	abOnly = regexp.MustCompile(`(?m)^Total: +(?:[\d.]+ +){4}(\d+)$`)
)

// ParseAb reads the output of ab, run with -n and -c, with or without -q. Its times
// are those of all answers, in whole milliseconds.
func ParseAb(out string) (Tool, error) {
	r := &report{tool: "ab", text: out}
	t := Tool{
		Complete:       r.count(r.must(abComplete)),
		Failed:         r.count(r.must(abFailed)),
		Non2xx:         r.count(r.find(abNon2xx)),
		LengthFailures: r.count(r.find(abLength)),
		Seconds:        r.number(r.must(abSeconds)),
		PerSecond:      r.number(r.must(abPerSecond)),
		P50:            r.duration(r.find(abP50), "ms"),
		P99:            r.duration(r.find(abP99), "ms"),
		Slowest:        r.duration(r.find(abSlowest), "ms"),
	}
	if t.Complete == 1 {
		only := r.duration(r.must(abOnly), "ms")
		t.P50, t.P99, t.Slowest = only, only, only
	}
	return r.done(t)
}
