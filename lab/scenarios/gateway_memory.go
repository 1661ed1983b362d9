package scenarios

import (
	"context"
	"fmt"

	"github.com/weir-go/weir/lab/load"
	"github.com/weir-go/weir/lab/result"
	"github.com/weir-go/weir/lab/scenario"
)

var gatewayMemory = scenario.Scenario{
	Name:    "gateway-memory",
	Title:   "More responses than the store can hold",
	Asks:    "A hundred thousand URLs are requested once each, as by a crawler, and a hundred repeatedly, through a store of 64 MiB that cannot hold them all. How much memory does it take, and are the popular ones still stored?",
	Needs:   gatewayNeeds,
	Service: gatewayService,
	Run:     runGatewayMemory,
}

// A crawl is the load of gateway-memory.
type crawl struct {
	cold, hot int
	store     int64
}

func runGatewayMemory(ctx context.Context, l *scenario.Lab) error {
	c := scenario.Size(l, crawl{100_000, 100, 64 << 20}, crawl{3000, 10, 2 << 20})
	origin, err := l.Serve(ctx, theOrigin, originSetup{})
	if err != nil {
		return err
	}
	fronts, err := startFronts(ctx, l, origin, gatewaySetup{Store: c.store}, caching...)
	if err != nil {
		return err
	}
	for _, f := range fronts {
		if err := c.measure(ctx, l, origin, f); err != nil {
			return err
		}
	}
	c.judge(l)
	return nil
}

// paths are the paths of the crawl: after every ten that are requested once comes one
// that is requested repeatedly.
func (c crawl) paths() []string {
	var all []string
	for i := range c.cold {
		all = append(all, fmt.Sprintf("/object/%d", i))
		if i%10 == 9 {
			all = append(all, c.hotPath(i/10))
		}
	}
	return all
}

// hotPath is the path of the i-th request for a popular object; they take turns.
func (c crawl) hotPath(i int) string { return fmt.Sprintf("/object/hot-%d", i%c.hot) }

// The settings of gateway-memory.
const (
	crawling = "the crawl"
	wanted   = "the wanted, again"
)

func (c crawl) measure(ctx context.Context, l *scenario.Lab, origin *scenario.Server, f front) error {
	at := func(paths []string) (urls []string) {
		for _, p := range paths {
			urls = append(urls, f.url+p)
		}
		return urls
	}
	urls := at(c.paths())
	var resident float64
	job := scenario.Job{Variant: f.variant, Setting: crawling, Beside: f.beside(), Load: load.Spec{URLs: urls, Clients: 16, Requests: len(urls)}}
	m, err := l.Measure(ctx, origin, job)
	if err != nil {
		return err
	}
	resident = residentOf(f.pid())
	l.Check(f.variant+", "+crawling+": no request fails", m.Failures == 0, "%d of %d; %s", m.Failures, m.Requests, m.FirstFailure)

	var hot []string
	for i := range c.hot {
		hot = append(hot, c.hotPath(i))
	}
	_, err = l.MeasureBy(ctx, origin, scenario.Job{Variant: f.variant, Setting: wanted, Beside: f.beside()}, func(ctx context.Context) (result.Measurement, error) {
		m := result.Measurement{Load: "each once, one after the other", Values: map[string]float64{residentAfter: resident}}
		for _, url := range at(hot) {
			status, _, _, err := get(ctx, url)
			if err != nil {
				return m, err
			}
			m.Requests++
			if status == 200 {
				m.Good++
			}
		}
		m.Failures = m.Requests - m.Good
		return m, nil
	})
	return err
}

// residentAfter names the resident memory of a front and its processes after the
// crawl.
const residentAfter = "resident bytes after the crawl"

func (c crawl) judge(l *scenario.Lab) {
	mib := func(bytes float64) string { return valueOf(bytes/(1<<20), 1) }
	var all float64
	for i := range c.cold {
		all += float64(objectBytes(i)) / (1 << 20)
	}
	table := result.Table{
		Title: fmt.Sprintf("%d responses, %.0f MiB, through a store of %d MiB", c.cold, all, c.store>>20),
		Head:  []string{"", "answers/s", "p99 ms", "resident after, MiB", fmt.Sprintf("of the %d popular ones still stored", c.hot)},
	}
	for _, v := range caching {
		m, after := medianOf(l, v, crawling), medianOf(l, v, wanted)
		table.Cells = append(table.Cells, []string{
			v, valueOf(m.PerSecond, 0), valueOf(p99(m), 1), mib(after.Values[residentAfter]), fmt.Sprint(c.hot - int(after.Source.Calls)),
		})
	}
	l.Table(table)
	m, after := medianOf(l, shielded, crawling), medianOf(l, shielded, wanted)
	used, resident := highest(m, accountedBytes), max(highest(m, residentBytes), after.Values[residentAfter])
	l.Check("weir: by its own count, it never exceeds its store", used > 0 && used <= float64(c.store), "at most %s of %d MiB", mib(used), c.store>>20)
	l.CheckTime("weir: resident memory is at most 2.5 times the store", resident <= 2.5*float64(c.store), "at most %s MiB", mib(resident))
	kept := c.hot - int(after.Source.Calls)
	l.Check("weir: at least 95 of 100 popular objects are still stored", kept*100 >= 95*c.hot, "%d of %d", kept, c.hot)
	l.Note("nginx keeps bodies in files, so its resident memory does not include its store. Each process also has its code and its buffers.")
}
