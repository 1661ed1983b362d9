package console

import "time"

// Incidents returns the incidents in a snapshot, after the rows of these series.
func Incidents(now Snapshot, interval time.Duration, total Series, units, limits, budgets map[string]Series) []Incident {
	v := view{now: &now, interval: interval, times: total["t"], units: map[string]*ring{}, limits: map[string]*ring{}, budgets: map[string]*ring{}}
	v.total = ringOf(total, unitColumns[:])
	for name, s := range units {
		v.units[name] = ringOf(s, unitColumns[:])
	}
	for name, s := range limits {
		v.limits[name] = ringOf(s, limitColumns[:])
	}
	for name, s := range budgets {
		v.budgets[name] = ringOf(s, budgetColumns[:])
	}
	return v.incidents()
}

// ringOf returns a ring of s that is full, and whose oldest row is not the first.
func ringOf(s Series, names []string) *ring {
	var g ring
	n := len(s["t"])
	for range min(n, 3) {
		g.add(make(row, len(names)), n)
	}
	for i := range n {
		r := make(row, len(names))
		for k, name := range names {
			if i < len(s[name]) {
				r[k] = s[name][i]
			}
		}
		g.add(r, n)
	}
	return &g
}
