package scenarios

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/weir-go/weir/lab/engine"
	"github.com/weir-go/weir/lab/result"
	"github.com/weir-go/weir/lab/scenario"
)

var searchStampede = scenario.Scenario{
	Name:    "search-stampede",
	Title:   "A stampede on a search",
	Asks:    "Three hundred clients search a million rows in PostgreSQL with POST, and many search for the same. How many queries reach the database, how long do clients wait, and does a client get a wrong or truncated response?",
	Needs:   []string{"nginx", "postgres"},
	Service: searchService,
	Run:     runSearchStampede,
}

// theSearch is the service behind the fronts, and searches the setting.
const (
	theSearch = "search"
	searches  = "searches"
)

// A searchCrowd is the load on the search, and the search.
type searchCrowd struct {
	readCrowd
	Rows int // of the table
	Pool int // connections of the service
}

func runSearchStampede(ctx context.Context, l *scenario.Lab) error {
	c := scenario.Size(l,
		searchCrowd{readCrowd{Clients: 300, Each: 4, Keys: 100, Skew: 1, Tries: 3, Deadline: 10 * time.Second}, 1_000_000, 8},
		searchCrowd{readCrowd{Clients: 30, Each: 3, Keys: 10, Skew: 1, Tries: 3, Deadline: time.Minute}, 5_000, 4})
	pg, err := l.Engine(ctx, "PostgreSQL", func(ctx context.Context) (*engine.Server, error) {
		return engine.Postgres(ctx, engine.PostgresOptions{Settings: map[string]string{
			"shared_buffers":                   scenario.Size(l, "1GB", "32MB"),
			"maintenance_work_mem":             scenario.Size(l, "512MB", "64MB"),
			"max_wal_size":                     "4GB",
			"max_parallel_workers_per_gather":  "0", // a query is one process, so the pool bounds the load
			"max_parallel_maintenance_workers": "0",
			"autovacuum":                       "off",
			"max_connections":                  "300", // canceled queries end their connections
		}})
	})
	if err != nil {
		return err
	}
	began := time.Now()
	totals, err := fillDocuments(ctx, pg.URL, c.Rows, c.Keys, func(rows int) { l.Step("filling the table, %d of %d rows", rows, c.Rows) },
		func() { l.Step("indexing %d rows", c.Rows) })
	if err != nil {
		return err
	}
	l.Note("The table took %.0f s to fill and to index.", time.Since(began).Seconds())
	origin, err := l.Serve(ctx, theSearch, searchSetup{pg.URL, c.Pool})
	if err != nil {
		return err
	}
	want, err := c.responses(ctx, l, origin.URL, totals)
	if err != nil {
		return err
	}
	for round := range scenario.Size(l, 2, 1) {
		for _, variant := range []string{unprotected, byNginx, shielded} {
			m, err := c.trial(origin, variant, round+1, want).measure(ctx, l)
			if err != nil {
				return err
			}
			checkReads(l, m)
		}
	}
	wrong, err := c.trial(origin, mistaken, 1, want).measure(ctx, l)
	if err != nil {
		return err
	}
	l.Check(mistaken+": the lab notices wrong answers", wrong.Values[wrongBodies] > 0, "%.0f of %d", wrong.Values[wrongBodies], wrong.Requests)
	c.judge(l)
	return nil
}

// request returns the body of a search. Half of the clients write it in another way.
func (c searchCrowd) request(key, spelling int) []byte {
	if spelling == 1 {
		return fmt.Appendf(nil, `{"size": 10, "query": %q}`, searchFor(key))
	}
	return fmt.Appendf(nil, `{"query":%q,"size":10}`, searchFor(key))
}

// responses returns the right response to each search: what the service answers when it
// gets one at a time, and which agrees with the rows that were written.
func (c searchCrowd) responses(ctx context.Context, l *scenario.Lab, url string, totals []int) (want [][]byte, err error) {
	agreed, slowest, began := 0, time.Duration(0), time.Now()
	for key := range c.Keys {
		l.Step("searching alone, %d of %d", key, c.Keys)
		sent := time.Now()
		body, err := c.alone(ctx, url, c.request(key, 0))
		if err != nil {
			return nil, err
		}
		slowest = max(slowest, time.Since(sent))
		if strings.HasPrefix(string(body), fmt.Sprintf(`{"total":%d,`, totals[key])) {
			agreed++
		}
		want = append(want, body)
	}
	l.Check("each search alone finds as many rows as were written with its words", agreed == c.Keys, "%d of %d searches", agreed, c.Keys)
	l.Note("A search alone took %.1f ms on average, the slowest %.1f ms.", time.Since(began).Seconds()*1000/float64(c.Keys), slowest.Seconds()*1000)
	return want, nil
}

// alone sends one search.
func (c searchCrowd) alone(ctx context.Context, url string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/search", strings.NewReader(string(body)))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", body, resp.Status, got)
	}
	return got, err
}

// trial returns the measurement of a front.
func (c searchCrowd) trial(origin *scenario.Server, variant string, round int, want [][]byte) readTrial {
	ignored := "/preference"
	if variant == mistaken {
		ignored = "/query"
	}
	h := http.Header{"Content-Type": {"application/json"}}
	return readTrial{
		origin: origin, variant: variant, setting: searches, round: round, config: c.weir(origin.URL, ignored),
		send: func(ctx context.Context, url string) (result.Measurement, error) {
			return c.send(ctx, url+"/search", h, func(client, key int) bodyRead { return bodyRead{c.request(key, client%2), want[key]} })
		},
	}
}

// weir returns the configuration of weir proxy, without its listener: that of the how-to,
// with as many calls at once as the service has connections.
func (c searchCrowd) weir(upstream, ignored string) string {
	return fmt.Sprintf(`
upstreams:
  - name: search
    servers: [%s]
    concurrency: %d
routes:
  - name: search
    path: =/search
    reads:
      - methods: [POST, GET]
        types: [application/json]
        compare: json
        ignore: [%s]
    cache:
      ttl: 10m
      stale_while_revalidate: 1m
      stale_if_error: 1h
`, upstream, c.Pool, ignored)
}

// judge records the checks and rows that compare variants.
func (c searchCrowd) judge(l *scenario.Lab) {
	const busy = "the database is busy, s"
	busyFor := func(m result.Measurement) float64 { return m.Source.MeanMS * float64(m.Source.Calls) / 1000 }
	l.Table(readTable(l, searches, "queries", map[string]func(result.Measurement) string{
		busy: func(m result.Measurement) string { return valueOf(busyFor(m), 1) },
	}, busy))
	for _, m := range l.Measurements(shielded, searches) {
		l.Check(fmt.Sprintf("weir, round %d: at most one query for each search", m.Round), m.Source.Calls <= int64(c.Keys), "%d queries, %d searches", m.Source.Calls, c.Keys)
	}
	before, nginx, after := medianOf(l, unprotected, searches), medianOf(l, byNginx, searches), medianOf(l, shielded, searches)
	l.Row(result.NewRow("queries, without weir → weir", "queries", result.Lower).Here(float64(before.Source.Calls), float64(after.Source.Calls)))
	l.Row(result.NewRow("queries, nginx → weir", "queries", result.Lower).Here(float64(nginx.Source.Calls), float64(after.Source.Calls)))
	l.Row(result.NewRow("searches answered, without weir → weir", "answers", result.Higher).Here(float64(before.Good), float64(after.Good)))
	l.Row(result.NewRow("time that the database is busy, without weir → weir", "s", result.Lower).Here(busyFor(before), busyFor(after)))
	l.Row(result.NewRow("p99, nginx → weir", "ms", result.Lower).Here(nginx.Values[firstEventP99], after.Values[firstEventP99]))
	l.Note("%d rows. A client gives a search up after %v. Searches are drawn by Zipf (%g) from %d; %d clients send %d each. "+
		"Half of the clients write a search with other white space and order of members.", c.Rows, c.Deadline, c.Skew, c.Keys, c.Clients, c.Each)
	l.Note("\"%s\" is a mistake in the configuration, made on purpose: it shows that the lab notices wrong answers.", mistaken)
}
