package scenarios

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"golang.org/x/sync/singleflight"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/lab/engine"
	"github.com/weir-go/weir/lab/load"
	"github.com/weir-go/weir/lab/result"
	"github.com/weir-go/weir/lab/scenario"
)

var coalescePostgres = scenario.Scenario{
	Name:  "coalesce-postgres",
	Title: "A thousand connections, a hundred rows in PostgreSQL",
	Asks:  "A thousand clients each want one of a hundred rows. How does the database cope with a query per request, and what changes if clients that want the same row at the same time share one query?",
	Published: &result.Published{
		Title: "Benchmark: Request Coalescing in Go",
		Setup: "A table of 100 messages, each with a user of 16 characters and a text of 100, in PostgreSQL. The response to a request is one of them, drawn at random, as JSON. ab sends 50,000 requests over 1,000 connections at a time, without keep-alive, first to a handler that sends a query per request, then to one with x/sync singleflight around the query.",
		FromSource: []string{
			"The queries go through database/sql without any limit on its pool, to a PostgreSQL with its default of 100 connections.",
			"A failed query gives status 500.",
			"The server draws the message, so all requests have the same path.",
		},
		Inconsistencies: []string{
			"The text says ab -n 100000; the output shows 50,000 requests.",
		},
		Flaws: []string{
			"The pool is unbounded: each query that finds no idle connection opens one, and the database refuses those above its limit. Those are the 1,591 responses that are not 2xx. A bound on the pool makes callers wait instead: the variant \"" + boundedPool + "\".",
			"The published rate counts failed responses. Here it counts only good ones.",
			"ab counts a response of a different length as failed: 6,424 and 4,958 of them. They did not fail: messages are JSON, and their ids have one or two digits. Here the length is ignored.",
		},
	},
	Needs:   []string{"postgres"},
	Service: rowsService,
	Run:     runCoalescePostgres,
}

// boundedPool is the published setup, repaired.
const boundedPool = "unprotected, bounded pool"

const (
	rowCount = 100
	// poolSize is the bound of the pool. Four services run at a time, three of them
	// with a pool, and the database admits 97 connections.
	poolSize = 24
	// cutOff ends the load of 50,000 requests early: opening a connection for most
	// queries keeps a processor busy for minutes.
	cutOff = 30 * time.Second
	// rowTTL is how long the cached variant keeps a row.
	rowTTL = time.Second
)

// The two ways of connecting. ab has no keep-alive without -k.
const (
	noKeepAlive = "a connection for each request"
	keepAlive   = "keep-alive"
)

func runCoalescePostgres(ctx context.Context, l *scenario.Lab) error {
	pg, err := l.Engine(ctx, "PostgreSQL", func(ctx context.Context) (*engine.Server, error) {
		return engine.Postgres(ctx, engine.PostgresOptions{})
	})
	if err != nil {
		return err
	}
	if err := fillRows(ctx, pg.URL); err != nil {
		return err
	}
	published := load.Spec{
		Mode: load.Closed, Clients: scenario.Size(l, 1000, 50), Requests: scenario.Size(l, 50_000, 500),
		Timeout:  30 * time.Second, // like ab's
		Duration: cutOff,
	}
	for _, variant := range []string{unprotected, boundedPool} {
		s, err := l.Serve(ctx, variant, pg.URL)
		if err != nil {
			return err
		}
		for _, mode := range []string{noKeepAlive, keepAlive} {
			published.NoKeepAlive = mode == noKeepAlive
			m, err := l.Measure(ctx, s, scenario.Job{Load: published, Setting: mode})
			if err != nil {
				return err
			}
			if m.Requests < int64(published.Requests) {
				l.Note("%s, %s: cut off after %v, with %d of the %d requests.", variant, mode, cutOff, m.Requests, published.Requests)
			}
		}
		if err := s.Stop(); err != nil {
			return err
		}
	}
	if err := coalesceByTurns(ctx, l, pg.URL, published.Clients); err != nil {
		return err
	}
	judgeCoalescing(l)
	coalescingRows(l)
	return nil
}

// byTurns are the variants whose speeds are compared, measured in rounds.
var byTurns = []string{xsync, coalescing, cached, ceiling}

// coalesceByTurns measures the variants of byTurns in rounds, each of which begins
// with a different variant.
func coalesceByTurns(ctx context.Context, l *scenario.Lab, url string, clients int) error {
	var servers []*scenario.Server
	for _, variant := range byTurns {
		s, err := l.Serve(ctx, variant, url)
		if err != nil {
			return err
		}
		servers = append(servers, s)
	}
	for _, mode := range []struct {
		name     string
		requests int
	}{{noKeepAlive, scenario.Size(l, 20_000, 500)}, {keepAlive, scenario.Size(l, 40_000, 500)}} {
		spec := load.Spec{Mode: load.Closed, Clients: clients, Requests: mode.requests, NoKeepAlive: mode.name == noKeepAlive}
		for round := range scenario.Size(l, 10, 1) {
			for i := range servers {
				s := servers[(round+i)%len(servers)]
				if _, err := l.Measure(ctx, s, scenario.Job{Load: spec, Setting: mode.name, Round: round + 1}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// judgeCoalescing records the checks.
func judgeCoalescing(l *scenario.Lab) {
	for _, variant := range append([]string{boundedPool}, byTurns...) {
		var failed, requests int64
		for _, m := range l.Measurements(variant, "") {
			failed += m.Failures
			requests += m.Requests
		}
		l.Check(variant+": no request fails", failed == 0, "%d of %d failed", failed, requests)
	}
	for _, m := range l.Measurements(boundedPool, "") {
		l.Check(boundedPool+", "+m.Setting+": each request is a query", m.Source.Calls == m.Requests, "%d queries for %d requests", m.Source.Calls, m.Requests)
	}
	for _, variant := range []string{coalescing, cached} {
		var queries, counted, requests int64
		for _, m := range l.Measurements(variant, "") {
			queries += m.Source.Calls
			counted += m.Source.Calls + int64(m.Values[hits]+m.Values[joins])
			requests += m.Requests
		}
		l.Check(variant+": each request queried, joined a query or hit the cache", counted == requests, "%d of %d", counted, requests)
		l.Check(variant+": fewer queries than requests", queries < requests, "%d queries for %d requests", queries, requests)
	}
	for _, mode := range []string{noKeepAlive, keepAlive} {
		refused := l.Measurements(unprotected, mode)[0].Values[refusedConnections]
		l.CheckTime("unprotected, "+mode+": the database refuses connections, as published", refused > 0, "%.0f refused", refused)
		joined := result.Ratio(l.Rates(coalescing, mode), l.Rates(xsync, mode))
		l.CheckTime("weir coalescing at least 1.0 of x/sync singleflight, "+mode+" (lower bound at least 0.97)",
			joined.Low >= 0.97, "%s", joined)
		kept := result.Ratio(l.Rates(cached, mode), l.Rates(ceiling, mode))
		l.CheckTime("weir cached at least 0.9 of the ceiling, "+mode, kept.Median >= 0.9, "%s", kept)
	}
}

// coalescingRows compares the measured figures with the published ones.
func coalescingRows(l *scenario.Lab) {
	medianOf := func(variant, setting string) result.Measurement {
		return result.Groups(l.Measurements(variant, setting))[0].Median
	}
	before, after, kept, top := medianOf(unprotected, noKeepAlive), medianOf(coalescing, noKeepAlive), medianOf(cached, noKeepAlive), medianOf(ceiling, noKeepAlive)
	l.Row(result.NewRow("requests/s, coalescing", "requests/s", result.Higher).Published(3176, 32669).Here(before.PerSecond, after.PerSecond).Under(top.PerSecond).
		Noted("published with failed answers in the rate"))
	l.Row(result.NewRow("requests/s, cache of 1 s", "requests/s", result.Higher).Here(before.PerSecond, kept.PerSecond).Under(top.PerSecond))
	for _, r := range []struct {
		what          string
		before, after float64
		of            func(*result.Latency) float64
	}{
		{"p50", 55, 27, func(l *result.Latency) float64 { return l.P50 }},
		{"p99", 3497, 74, func(l *result.Latency) float64 { return l.P99 }},
		{"longest", 15728, 1093, func(l *result.Latency) float64 { return l.Slowest }},
	} {
		if before.Latency == nil || after.Latency == nil {
			continue // no good response at all, which a check reports
		}
		l.Row(result.NewRow(r.what, "ms", result.Lower).Published(r.before, r.after).Here(r.of(before.Latency), r.of(after.Latency)).
			Noted("good responses only"))
	}
	l.Row(result.NewRow("failed responses per thousand", "answers", result.Lower).Published(1591.0/50, 0).Here(perThousand(before), perThousand(after)))

	before, after, kept, top = medianOf(unprotected, keepAlive), medianOf(coalescing, keepAlive), medianOf(cached, keepAlive), medianOf(ceiling, keepAlive)
	l.Row(result.NewRow("requests/s, coalescing, keep-alive", "requests/s", result.Higher).Here(before.PerSecond, after.PerSecond).Under(top.PerSecond))
	l.Row(result.NewRow("requests/s, cache of 1 s, keep-alive", "requests/s", result.Higher).Here(before.PerSecond, kept.PerSecond).Under(top.PerSecond))
	l.Note("On the published machine the service had all processors; here it shares them with the database and the load generator. The ceiling is the same server with a constant response of the same size, so the share of the ceiling compares better than the rate.")
	l.Note("%s, %s and %s query through the same bounded pool of %d connections as \"%s\", and all three give a query at most %v: x/sync singleflight through a separate context, because the context of one request would end the query for all waiters.",
		xsync, coalescing, cached, poolSize, boundedPool, weir.DefaultLoadTimeout)
}

func perThousand(m result.Measurement) float64 {
	return 1000 * float64(m.Failures) / float64(max(1, m.Requests))
}

// A message is a row of the table.
type message struct {
	ID   int64
	User string
	Text string
}

func randomMessage(r *rand.Rand, id int64) *message {
	letters := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte('a' + r.IntN(26))
		}
		return string(b)
	}
	return &message{ID: id, User: letters(16), Text: letters(100)}
}

// fillRows creates the table and fills it.
func fillRows(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("connect to fill the table: %w", err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "CREATE TABLE messages (id bigint PRIMARY KEY, username varchar(100) NOT NULL, text text NOT NULL)"); err != nil {
		return fmt.Errorf("create the table: %w", err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	_, err = conn.CopyFrom(ctx, pgx.Identifier{"messages"}, []string{"id", "username", "text"}, pgx.CopyFromSlice(rowCount, func(i int) ([]any, error) {
		m := randomMessage(random, int64(i))
		return []any{m.ID, m.User, m.Text}, nil
	}))
	if err != nil {
		return fmt.Errorf("fill the table: %w", err)
	}
	return nil
}

// refusedConnections names the count of queries that got no connection because the
// database was at its limit.
const refusedConnections = "connections refused by the database"

// rowsService serves one message per request.
func rowsService(_ context.Context, o scenario.Options) (*scenario.Service, error) {
	if o.Variant == ceiling {
		return constantService()
	}
	var url string
	if err := o.Decode(&url); err != nil {
		return nil, err
	}
	db, err := sql.Open("pgx", url)
	if err != nil {
		return nil, err
	}
	if o.Variant != unprotected {
		db.SetMaxOpenConns(poolSize)
		db.SetMaxIdleConns(poolSize)
	}
	meter, refused := new(scenario.Meter), new(atomic.Int64)
	find := func(ctx context.Context, id int64) (*message, error) {
		defer meter.Begin()()
		m := new(message)
		err := db.QueryRowContext(ctx, "SELECT id, username, text FROM messages WHERE id = $1", id).Scan(&m.ID, &m.User, &m.Text)
		if full := (*pgconn.PgError)(nil); errors.As(err, &full) && full.Code == tooManyConnections {
			refused.Add(1)
		}
		return m, err
	}
	get, guard, err := protectRows(o.Variant, find)
	if err != nil {
		return nil, err
	}
	counts := new(counter)
	if guard != nil {
		counts.stats = guard.Stats
	}
	return &scenario.Service{
		Meter:   meter,
		Gauges:  map[string]func() float64{"connections to the database": func() float64 { return float64(db.Stats().OpenConnections) }},
		Handler: randomRow(get),
		Reset: func(ctx context.Context) error {
			refused.Store(0)
			if guard == nil {
				return nil
			}
			counts.reset()
			return guard.InvalidateAll(ctx)
		},
		Values: func() map[string]float64 {
			if guard == nil {
				return map[string]float64{refusedConnections: float64(refused.Load())}
			}
			return counts.values()
		},
		Close: func() { db.Close() },
	}, nil
}

// tooManyConnections is PostgreSQL's error code for a connection above
// max_connections.
const tooManyConnections = "53300"

type rowFunc = func(context.Context, int64) (*message, error)

// protectRows wraps find with the variant's protection. The Guard is nil if the
// variant does not use weir.
func protectRows(variant string, find rowFunc) (rowFunc, *weir.Guard[int64, *message], error) {
	options := weir.Options{} // without a TTL nothing is stored
	switch variant {
	case xsync:
		var g singleflight.Group
		return func(ctx context.Context, id int64) (*message, error) {
			v, err, _ := g.Do(strconv.FormatInt(id, 10), func() (any, error) {
				// If the query ended with the first request, it would fail for the
				// others too. The bound equals that of weir's queries, so that the
				// same queries are compared.
				ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), weir.DefaultLoadTimeout)
				defer cancel()
				return find(ctx, id)
			})
			if err != nil {
				return nil, err
			}
			return v.(*message), nil
		}, nil, nil
	case coalescing:
	case cached:
		options.TTL = rowTTL
	default:
		return find, nil, nil
	}
	g, err := weir.New(find, options)
	if err != nil {
		return nil, nil, err
	}
	return g.Get, g, nil
}

// randomRow serves a row drawn at random.
func randomRow(get rowFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m, err := get(r.Context(), rand.Int64N(rowCount))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError) // as published
			return
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(m) //nolint:errcheck // the client is gone
	})
}

// constantService serves constant bytes of the length of a message.
func constantService() (*scenario.Service, error) {
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(randomMessage(rand.New(rand.NewPCG(1, 2)), rowCount/2)); err != nil {
		return nil, err
	}
	body := b.Bytes()
	return &scenario.Service{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Write(body) //nolint:errcheck // the client is gone
	})}, nil
}
