package load

import "regexp"

// The output of `wrk`, version 4.
var (
	wrkRequests  = regexp.MustCompile(`(?m)^ +(\d+) requests in `)
	wrkElapsed   = regexp.MustCompile(`(?m)^ +\d+ requests in ([\d.]+[a-z]+),`)
	wrkPerSecond = regexp.MustCompile(`(?m)^Requests/sec: +([\d.]+)`)
	wrkNon2xx    = regexp.MustCompile(`(?m)^ +Non-2xx or 3xx responses: (\d+)`)
	wrkConnect   = regexp.MustCompile(`(?m)^ +Socket errors: connect (\d+), `)
	wrkRead      = regexp.MustCompile(`(?m)^ +Socket errors: .* read (\d+), `)
	wrkWrite     = regexp.MustCompile(`(?m)^ +Socket errors: .* write (\d+), `)
	wrkTimeout   = regexp.MustCompile(`(?m)^ +Socket errors: .* timeout (\d+)`)
	wrkSlowest   = regexp.MustCompile(`(?m)^ +Latency +\S+ +\S+ +([\d.]+[a-z]+) `)
	wrkP50       = regexp.MustCompile(`(?m)^ +50% +([\d.]+[a-z]+)`)
	wrkP99       = regexp.MustCompile(`(?m)^ +99% +([\d.]+[a-z]+)`)
)

// ParseWrk reads the output of wrk, run with -t, -c, -d and --latency. Its times are
// those of the answers within its timeout. wrk counts a late answer both as a request
// and as a failure. wrk does not count a broken connection as a request; ParseWrk
// does.
func ParseWrk(out string) (Tool, error) {
	r := &report{tool: "wrk", text: out}
	broken := r.count(r.find(wrkConnect)) + r.count(r.find(wrkRead)) + r.count(r.find(wrkWrite))
	t := Tool{
		Complete:  r.count(r.must(wrkRequests)) + broken,
		Failed:    r.count(r.find(wrkTimeout)) + broken,
		Non2xx:    r.count(r.find(wrkNon2xx)),
		Seconds:   r.duration(r.must(wrkElapsed), "").Seconds(),
		PerSecond: r.number(r.must(wrkPerSecond)),
		P50:       r.duration(r.find(wrkP50), ""),
		P99:       r.duration(r.find(wrkP99), ""),
		Slowest:   r.duration(r.find(wrkSlowest), ""),
	}
	return r.done(t)
}
