package entries_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/histories"
)

// triggers are the rows of the table, for a TTL of 60 s.
var triggers = []struct {
	name string
	o    weir.Options
}{
	{"none", weir.Options{}},
	{"window", weir.Options{RefreshAhead: 0.1, RefreshJitter: 0.1}},
	{"beta 0.5", weir.Options{RefreshBeta: 0.5}},
	{"beta 1", weir.Options{RefreshBeta: 1}},
	{"beta 2", weir.Options{RefreshBeta: 2}},
}

// E2: compares the triggers by load time and by request rate. It prints a table
// (go test -v) and checks the claims that the documents derive from it. For
// each row,
//
//   - early, ahead, waited: a Guard, of whose entries that share is refreshed
//     before its TTL of 60 s, so long before it in the mean, and so many
//     callers an expiry met an expired value and waited;
//   - alone, fleet: the loads of an expiry where the deciding processes share an
//     entry and know nothing of each other: each request by itself, as in the
//     paper, and eight processes with a Guard each.
//
// Where each request decides by itself, XFetch has e^(1/beta) loads an expiry
// at any rate that is high enough: the requests that start a load with more
// than g left are Poisson of mean L(g), so L at the first of them is
// exponential with mean 1; before its load is done others start, of mean
// L·(e^(1/beta)-1).
func TestE2TriggersBesideEachOther(t *testing.T) {
	table := []string{"load   rate/s  trigger     early   ahead s   waited    alone   fleet   theory: early  ahead s"}
	for _, delta := range []time.Duration{sec, 100 * ms} {
		for _, rate := range []float64{0.1, 1, 10, 100, 1000} {
			if !histories.Full() && (rate > 10 || delta < sec) {
				continue
			}
			var none tally
			for i, trigger := range triggers {
				n := int(min(200, max(10, 2000/rate)))
				o := trigger.o
				o.TTL = ttlOfTraffic
				got := traffic(t, o, delta, rate, n, reachOf(o, rate, delta))
				if got.loads != n {
					t.Errorf("%v at %v/s, %s: %d loads; want one an expiry, %d", delta, rate, trigger.name, got.loads, n)
				}
				if i == 0 {
					none = got
				}
				f := &free{o: o, rate: rate, delta: delta.Seconds(), rnd: rand.New(rand.NewPCG(3, 4))}
				alone, fleet := f.loads(0), f.loads(8)
				row := fmt.Sprintf("%-6v %6v  %-9s %6.3f  %8.3f %8.2f %8.2f  %6.2f", delta, rate, trigger.name,
					float64(got.early)/float64(n), got.ahead/float64(n), float64(got.waited)/float64(n), alone, fleet)
				if beta := o.RefreshBeta; beta > 0 {
					never, mean := xfetchTheory(rate, delta.Seconds()*beta, ttlOfTraffic.Seconds())
					row += fmt.Sprintf("  %14.3f %8.3f", 1-never, mean)
					if share := float64(got.early) / float64(n); math.Abs(share-1+never) > nearly(never, n) {
						t.Errorf("%s: want %.3f refreshed early", row, 1-never)
					}
					if want := math.Exp(1 / beta); rate*f.delta >= 100 && math.Abs(alone/want-1) > 0.2 {
						t.Errorf("%s: want %.2f loads where each decides alone", row, want)
					}
				}
				table = append(table, row)
				claims(t, row, o, rate*f.delta, got, none, alone)
			}
		}
	}
	t.Log("\n" + strings.Join(table, "\n"))
}

// claims checks the claims of docs/adr/0012-probabilistic-refresh.md. busy is
// the number of requests during a load.
func claims(t *testing.T, row string, o weir.Options, busy float64, got, none tally, alone float64) {
	t.Helper()
	switch {
	case o.RefreshAhead == 0 && o.RefreshBeta == 0:
		if got.early > 0 {
			t.Errorf("%s: want nothing early", row)
		}
	case busy >= 10 && o.RefreshBeta >= 1:
		if got.waited*5 > none.waited {
			t.Errorf("%s: %d callers waited; want at most a fifth of the %d without a trigger", row, got.waited, none.waited)
		}
	case busy >= 10 && o.RefreshAhead > 0:
		if got.waited > 0 {
			t.Errorf("%s: %d callers waited; want none", row, got.waited)
		}
		if alone < busy {
			t.Errorf("%s: %v loads where each decides alone; want %v, one for each request in the time of a load", row, alone, busy)
		}
	}
}

// reachOf returns how long before the TTL the first refresh may start.
func reachOf(o weir.Options, rate float64, delta time.Duration) time.Duration {
	switch {
	case o.RefreshBeta > 0:
		return xfetchReach(rate, delta.Seconds()*o.RefreshBeta)
	case o.RefreshAhead > 0:
		return time.Duration((o.RefreshAhead + o.RefreshJitter) * float64(ttlOfTraffic))
	}
	return 0
}

// free simulates requests for one entry that several processes share and
// refresh independently.
type free struct {
	o           weir.Options
	rate, delta float64
	rnd         *rand.Rand
}

// loads returns the mean number of loads per expiry. Each process runs one load
// at a time; with no processes each request may start one.
func (f *free) loads(processes int) float64 {
	const expiries = 300
	sum := 0
	for range expiries {
		sum += f.expiry(processes)
	}
	return float64(sum) / expiries
}

// expiry simulates one lifetime of the entry, to the end of the load that
// replaces it. Times are in seconds, and 0 is the end of the TTL.
func (f *free) expiry(processes int) (loads int) {
	ttl := ttlOfTraffic.Seconds()
	windows, busy := make([]float64, processes+1), make([]bool, processes+1)
	for i := range windows {
		windows[i] = -ttl * (f.o.RefreshAhead + f.o.RefreshJitter*f.rnd.Float64())
	}
	end := math.Inf(1)
	for at := -reachOf(f.o, f.rate, time.Duration(f.delta*1e9)).Seconds(); ; {
		at += f.rnd.ExpFloat64() / f.rate
		if at >= end {
			return loads
		}
		p := processes
		if processes > 0 {
			p = f.rnd.IntN(processes)
		}
		due := at >= 0
		switch {
		case f.o.RefreshBeta > 0:
			due = due || -f.delta*f.o.RefreshBeta*math.Log(1-f.rnd.Float64()) >= -at
		case f.o.RefreshAhead > 0:
			due = due || at >= windows[p]
		}
		if due && !busy[p] {
			loads++
			busy[p] = processes > 0
			end = min(end, at+f.delta)
		}
	}
}
