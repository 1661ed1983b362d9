package load

import "regexp"

// The output of `hey`, version 0.1.
var (
	heySeconds   = regexp.MustCompile(`(?m)^  Total:\s+([\d.]+) secs`)
	heyPerSecond = regexp.MustCompile(`(?m)^  Requests/sec:\s+([\d.]+)`)
	heySlowest   = regexp.MustCompile(`(?m)^  Slowest:\s+([\d.]+) secs`)
	heyP50       = regexp.MustCompile(`(?m)^  50%+ in ([\d.]+) secs`)
	heyP99       = regexp.MustCompile(`(?m)^  99%+ in ([\d.]+) secs`)
	heyStatuses  = regexp.MustCompile(`(?m)^  \[(\d+)\]\t(\d+) responses$`)
	heyErrors    = regexp.MustCompile(`(?ms)^Error distribution:$.*`)
	heyError     = regexp.MustCompile(`(?m)^  \[(\d+)\]\t`)
)

// ParseHey reads the output of hey, run with -n and -c. Its times are those of all
// answers. For few requests hey omits the high percentiles, which are then 0 here.
func ParseHey(out string) (Tool, error) {
	r := &report{tool: "hey", text: out}
	t := Tool{
		Statuses:  make(map[int]int64),
		Seconds:   r.number(r.must(heySeconds)),
		PerSecond: r.number(r.must(heyPerSecond)),
		P50:       r.duration(r.find(heyP50), "s"),
		P99:       r.duration(r.find(heyP99), "s"),
		Slowest:   r.duration(r.must(heySlowest), "s"),
	}
	for _, m := range heyStatuses.FindAllStringSubmatch(out, -1) {
		status, n := r.count(m[1]), r.count(m[2])
		t.Statuses[int(status)] = n
		t.Complete += n
		if status < 200 || status > 299 {
			t.Non2xx += n
		}
	}
	for _, m := range heyError.FindAllStringSubmatch(heyErrors.FindString(out), -1) {
		t.Failed += r.count(m[1])
	}
	if t.Failed > 0 {
		t.Statuses[0] = t.Failed
	}
	t.Complete += t.Failed
	return r.done(t)
}
