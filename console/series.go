package console

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
)

// The columns of Series, in the order of rows, without the time.
var (
	unitColumns = [...]string{
		"requests", "hits", "stale", "negative", "failures", "joined", "validated", "fleet",
		"calls", "refreshes", "failed", "refused", "refused_client", "stale_on_error",
		"refused_budget", "refused_paused", "refused_unreachable", "refused_client_budget", "too_large", "observed",
		"missed", "missed_errors", "unanswered", "gone", "fell_back",
		"cost_spent", "cost_avoided", "cost_refused",
		"http_1xx", "http_2xx", "http_3xx", "http_4xx", "http_5xx", "http_broken", "http_left",
		"request_p50", "request_p99", "wait_p50", "wait_p99", "call_p50", "call_p99",
		"flights", "running", "waiting", "stuck", "entries",
	}
	limitColumns  = [...]string{"limit", "in_use", "queued", "latency", "baseline", "held"}
	budgetColumns = [...]string{"left", "queued", "refused"} // not sent: only incidents need them
)

// unitIndex has the index of each of unitColumns.
var unitIndex = func() map[string]int {
	m := make(map[string]int, len(unitColumns))
	for i, name := range unitColumns {
		m[name] = i
	}
	return m
}()

// Indexes in unitColumns where the kinds of columns start.
const (
	firstQuantile = 35
	firstGauge    = 41
)

// A row is a point, in the order of the columns.
type row []float64

// point returns r with column names.
func (r row) point(names []string, t float64) Point {
	p := make(Point, len(names)+1)
	p["t"] = t
	for i, name := range names {
		p[name] = r[i]
	}
	return p
}

// A ring has the last rows of a series. Values are stored in 32 bits: a chart shows
// fewer than their seven digits.
type ring struct {
	columns [][]float32 // of equal length, which grows up to the maximum
	next    int         // index of the next row, once they are full
}

// add appends r, over the oldest row if there are already most.
func (g *ring) add(r row, most int) {
	if g.columns == nil {
		g.columns = make([][]float32, len(r))
	}
	grow := len(g.columns[0]) < most
	for i, v := range r {
		if grow {
			g.columns[i] = append(g.columns[i], float32(v))
		} else {
			g.columns[i][g.next] = float32(v)
		}
	}
	if !grow {
		g.next = (g.next + 1) % most
	}
}

// len returns how many rows g has. A nil ring has none.
func (g *ring) len() int {
	if g == nil || len(g.columns) == 0 {
		return 0
	}
	return len(g.columns[0])
}

// at returns the value in column i of the row that is back rows before the newest.
func (g *ring) at(back, i int) float64 {
	n := g.len()
	return float64(g.columns[i][(g.next+n-1-back)%n])
}

// mean returns the mean of the known values of column i in the newest n rows, 0 if there are none.
func (g *ring) mean(i, n int) float64 {
	sum, have := 0.0, 0
	for back := range min(n, g.len()) {
		if v := g.at(back, i); !math.IsNaN(v) {
			sum += v
			have++
		}
	}
	if have == 0 {
		return 0
	}
	return sum / float64(have)
}

// series returns all rows, oldest first. times are the times of all samples, at least
// as many as the rows.
func (g *ring) series(names []string, times []float64) Series {
	s := make(Series, len(names)+1)
	n := len(g.columns[0])
	s["t"] = slices.Clone(times[len(times)-n:])
	for i, name := range names {
		c := make(Column, 0, n)
		for k := range n {
			c = append(c, float64(g.columns[i][(g.next+k)%n]))
		}
		s[name] = c
	}
	return s
}

// emptySeries returns a Series with all columns and no points.
func emptySeries(names []string) Series {
	s := Series{"t": Column{}}
	for _, name := range names {
		s[name] = Column{}
	}
	return s
}

// MarshalJSON writes null for NaN and infinities.
func (c Column) MarshalJSON() ([]byte, error) {
	b := make([]byte, 0, 2+6*len(c))
	b = append(b, '[')
	for i, v := range c {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendNumber(b, v)
	}
	return append(b, ']'), nil
}

// UnmarshalJSON reads null as NaN.
func (c *Column) UnmarshalJSON(b []byte) error {
	var read []*float64
	if err := json.Unmarshal(b, &read); err != nil {
		return err
	}
	*c = make(Column, len(read))
	for i, v := range read {
		(*c)[i] = orNaN(v)
	}
	return nil
}

// MarshalJSON writes null for NaN and infinities.
func (p Point) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, name := range slices.Sorted(maps.Keys(p)) {
		if i > 0 {
			b = append(b, ',')
		}
		quoted, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		b = append(append(b, quoted...), ':')
		b = appendNumber(b, p[name])
	}
	return append(b, '}'), nil
}

// UnmarshalJSON reads null as NaN.
func (p *Point) UnmarshalJSON(b []byte) error {
	if bytes.Equal(b, []byte("null")) {
		return errors.New("console: a point is null")
	}
	var read map[string]*float64
	if err := json.Unmarshal(b, &read); err != nil {
		return err
	}
	*p = make(Point, len(read))
	for name, v := range read {
		(*p)[name] = orNaN(v)
	}
	return nil
}

func orNaN(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}

// appendNumber appends v with as few digits as distinguish it from its neighbors, at
// 32 bits if it fits.
func appendNumber(b []byte, v float64) []byte {
	switch short := float64(float32(v)); {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return append(b, "null"...)
	case short == v:
		return appendFloat(b, v, 32)
	}
	return appendFloat(b, v, 64)
}

func appendFloat(b []byte, v float64, bits int) []byte {
	format := byte('f')
	if a := math.Abs(v); a != 0 && (a < 1e-6 || a >= 1e21) {
		format = 'g' // which JSON also accepts
	}
	return strconv.AppendFloat(b, v, format, -1, bits)
}
