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
	Asks:  "A thousand clients want one of a hundred rows each. How does the database cope with a query for each request, and what if clients that want the same row at the same time share one?",
	Published: &result.Published{
		Title: "Benchmark: Request Coalescing in Go",
		Setup: "A table of 100 messages, each with a user of 16 characters and a text of 100, in PostgreSQL. A request is answered with one of them, drawn at random, as JSON. ab sends 50,000 requests over 1,000 connections at a time, without keep-alive, first to a handler that queries for each request, then to one with x/sync singleflight around the query.",
		FromSource: []string{
			"The queries go through database/sql without any limit on its pool, to a PostgreSQL with its default of 100 connections.",
			"A failed query is answered with status 500.",
			"Which message it is is drawn on the server, so that all requests have one path.",
		},
		Inconsistencies: []string{
			"The text says ab -n 100000; its output is of 50,000 requests.",
		},
		Flaws: []string{
			"The pool is unbounded: each query that finds no idle connection opens one, and the database refuses those above its limit. Those are the 1,591 answers that are not 2xx. A bound on the pool makes callers wait in its place: the variant \"" + boundedPool + "\".",
			"The rate counts refused answers as answers. Here it is that of good ones.",
			"ab counts an answer of another length as failed: 6,424 and 4,958 of them. They are not: messages are in JSON, and their ids have one digit or two. Here the length is not looked at.",
		},
	},
	Needs:   []string{"postgres"},
	Service: rowsService,
	Run:     runCoalescePostgres,
}

// boundedPool is the repair of the published set-up.
const boundedPool = "unprotected, bounded pool"

const (
	rowCount = 100
	// poolSize is the bound of the pool. Four services are up at a time, three
	// of them with a pool, and the database admits 97 connections.
	poolSize = 24
	// cutOff ends the load of 50,000 requests where it takes longer: opening a
	// connection for most queries keeps a processor busy for minutes.
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
		Timeout:  30 * time.Second, // as ab has
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

// byTurns are the variants whose speeds are compared.
var byTurns = []string{xsync, coalescing, cached, ceiling}

// coalesceByTurns measures them in rounds, each of which begins with another.
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

// judgeCoalescing says what must hold.
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
		l.Check(variant+": each request has queried, joined a query or hit", counted == requests, "%d of %d", counted, requests)
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

// coalescingRows puts what was measured beside what was published.
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
			continue // not one good answer, which a check tells
		}
		l.Row(result.NewRow(r.what, "ms", result.Lower).Published(r.before, r.after).Here(r.of(before.Latency), r.of(after.Latency)).
			Noted("of good answers"))
	}
	l.Row(result.NewRow("failed answers of a thousand", "answers", result.Lower).Published(1591.0/50, 0).Here(perThousand(before), perThousand(after)))

	before, after, kept, top = medianOf(unprotected, keepAlive), medianOf(coalescing, keepAlive), medianOf(cached, keepAlive), medianOf(ceiling, keepAlive)
	l.Row(result.NewRow("requests/s, coalescing, keep-alive", "requests/s", result.Higher).Here(before.PerSecond, after.PerSecond).Under(top.PerSecond))
	l.Row(result.NewRow("requests/s, cache of 1 s, keep-alive", "requests/s", result.Higher).Here(before.PerSecond, kept.PerSecond).Under(top.PerSecond))
	l.Note("The published machine had the processors to itself that here serve, query and ask. The ceiling is what the same server makes of a constant of the same size, so the share of it that is reached compares better than the rate.")
	l.Note("%s, %s and %s query through the same bounded pool of %d connections as \"%s\", and all three give a query %v at most: x/sync singleflight by a context of its own, since that of a request would end the query for all who wait.",
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

// refusedConnections names the queries that got no connection, since the
// database had as many as it admits.
const refusedConnections = "connections refused by the database"

// rowsService answers each request with a message.
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

// protectRows puts in front of find what the variant has there. The Guard is
// nil if that is not weir.
func protectRows(variant string, find rowFunc) (rowFunc, *weir.Guard[int64, *message], error) {
	options := weir.Options{} // without a TTL nothing is kept
	switch variant {
	case xsync:
		var g singleflight.Group
		return func(ctx context.Context, id int64) (*message, error) {
			v, err, _ := g.Do(strconv.FormatInt(id, 10), func() (any, error) {
				// If the query ended with the first request, the others would
				// fail with it. The bound is what weir's queries have, so that
				// the same queries are compared.
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

// randomRow answers with a row drawn at random.
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

// constantService answers with bytes that lie ready, as long as a message.
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
