package soak

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A sample holds the resource use of a gateway's process at one time.
type sample struct {
	Second     float64 `json:"second"` // since the start
	Gateway    int     `json:"gateway"`
	Life       int     `json:"life"`       // of its process, from 1
	MemoryMiB  float64 `json:"memory_mib"` // resident and private: without the pages of the program's file, whose number only grows
	HeapMiB    float64 `json:"heap_mib"`   // live heap after the last collection
	Goroutines float64 `json:"goroutines"`
	Files      float64 `json:"files"`
}

// sampleEvery is the time between two samples.
const sampleEvery = 2 * time.Second

// watch samples all gateways until ctx ends.
func (s *soak) watch(ctx context.Context) {
	for rest(ctx, sampleEvery) {
		for _, g := range s.gateways {
			if one, err := g.sample(ctx, time.Since(s.began)); err == nil {
				s.mu.Lock()
				s.samples = append(s.samples, one)
				s.mu.Unlock()
			}
		}
	}
}

// sample reads the values of the system and of the gateway itself. It returns an
// error if the gateway is stopped or gone.
func (g *gateway) sample(ctx context.Context, since time.Duration) (sample, error) {
	one := sample{Second: since.Seconds(), Gateway: g.index, Life: g.life()}
	pid := g.pid()
	if pid == 0 {
		return one, os.ErrProcessDone
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return one, err
	}
	for line := range strings.Lines(string(status)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "RssAnon:" {
			kib, _ := strconv.ParseFloat(f[1], 64)
			one.MemoryMiB = kib / 1024
		}
	}
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return one, err
	}
	one.Files = float64(len(files))
	err = g.ask(ctx, map[string]*float64{"go_goroutines": &one.Goroutines, "go_gc_heap_live_bytes": &one.HeapMiB})
	one.HeapMiB /= 1 << 20
	return one, err
}

// ask reads values from /metrics.
func (g *gateway) ask(ctx context.Context, into map[string]*float64) error {
	ctx, cancel := context.WithTimeout(ctx, sampleEvery)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+g.admin+"/metrics", nil)
	if err != nil {
		return err
	}
	resp, err := g.operator.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	in := bufio.NewScanner(io.LimitReader(resp.Body, maxRead))
	for in.Scan() {
		name, value, _ := strings.Cut(in.Text(), " ")
		if v := into[name]; v != nil {
			if *v, err = strconv.ParseFloat(value, 64); err != nil {
				return err
			}
			delete(into, name)
		}
	}
	if len(into) > 0 {
		return fmt.Errorf("/metrics lacks %v: %w", slices.Collect(maps.Keys(into)), cmp.Or(in.Err(), io.ErrUnexpectedEOF))
	}
	return nil
}

// A Trend is the change of a value over time.
type Trend struct {
	What     string  `json:"what"`
	Mean     float64 `json:"mean"`
	Slope    float64 `json:"slope_per_hour"`
	Low      float64 `json:"low"` // of the slope's 95 % interval
	High     float64 `json:"high"`
	Rises    bool    `json:"rises"`
	Measured bool    `json:"measured"` // there were enough samples
}

const (
	trendBlocks = 20 // blocks that a trend is fitted to
	// material is the share of the mean by which a value must grow over the observed
	// time to count as rising. Slower growth is not a noticeable leak.
	material = 0.02
)

// quantiles95 are Student's t, two-sided, by degrees of freedom.
var quantiles95 = [...]float64{0, 12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.10}

// trendOf fits a line by least squares to the means of blocks of equal length. The
// value rises if the whole interval of the slope is above zero and the growth is
// material.
//
// A cache that fills for minutes, and is emptied when an engine has lost its history,
// makes neighboring blocks alike: 20 of them carry less information than 20
// independent ones. So their number is reduced by the correlation of each residual
// with the next (Santer et al., Statistical significance of trends and trend
// differences, Journal of Geophysical Research 105, 2000, equation 6).
func trendOf(what string, at, values []float64) Trend {
	t := Trend{What: what}
	if len(at) < 2*trendBlocks {
		return t
	}
	first, last := at[0], at[len(at)-1]
	var x, y []float64
	for b := range trendBlocks {
		from := first + (last-first)*float64(b)/trendBlocks
		to := first + (last-first)*float64(b+1)/trendBlocks
		n, sx, sy := 0.0, 0.0, 0.0
		for i := range at {
			if at[i] >= from && (at[i] < to || b == trendBlocks-1) {
				n, sx, sy = n+1, sx+at[i], sy+values[i]
			}
		}
		if n > 0 {
			x, y = append(x, sx/n/3600), append(y, sy/n)
		}
	}
	n := float64(len(x))
	if n < 4 {
		return t
	}
	mx, my := mean(x), mean(y)
	var xx, xy float64
	for i := range x {
		xx += (x[i] - mx) * (x[i] - mx)
		xy += (x[i] - mx) * (y[i] - my)
	}
	t.Mean, t.Slope, t.Measured = my, xy/xx, true
	var rest, next, before float64
	for i := range x {
		d := y[i] - my - t.Slope*(x[i]-mx)
		rest += d * d
		next += d * before
		before = d
	}
	if rest > 0 {
		r := max(0, next/rest)
		n *= (1 - r) / (1 + r)
	}
	free := int(n - 2)
	if free < 1 {
		t.Measured = false // too few independent blocks
		return t
	}
	half := quantiles95[min(free, len(quantiles95)-1)] * math.Sqrt(rest/(n-2)/xx)
	t.Low, t.High = t.Slope-half, t.Slope+half
	t.Rises = t.Low > 0 && t.Slope*(last-first)/3600 > material*t.Mean
	return t
}

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

// trends returns the trends of the first gateway over the last two thirds.
func trends(samples []sample, length time.Duration) []Trend {
	var at, memory, heap, goroutines, files []float64
	for _, s := range samples {
		if s.Gateway == 0 && s.Second >= length.Seconds()/3 {
			at = append(at, s.Second)
			memory, heap = append(memory, s.MemoryMiB), append(heap, s.HeapMiB)
			goroutines, files = append(goroutines, s.Goroutines), append(files, s.Files)
		}
	}
	return []Trend{trendOf("memory, MiB", at, memory), trendOf("live heap, MiB", at, heap), trendOf("goroutines", at, goroutines), trendOf("file descriptors", at, files)}
}
