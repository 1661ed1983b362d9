package scenarios

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/lab/engine"
	"github.com/weir-go/weir/lab/load"
	"github.com/weir-go/weir/lab/result"
	"github.com/weir-go/weir/lab/scenario"
	"github.com/weir-go/weir/limit"
)

var overload = scenario.Scenario{
	Name:    "overload",
	Title:   "More requests than the database can take",
	Asks:    "Requests arrive at half the capacity of a database, and at up to five times it. How many of them get a response in time, and how long does that take?",
	Needs:   []string{"postgres"},
	Axis:    "arrivals, times the capacity",
	Service: overloadService,
	Run:     runOverload,
}

// The variants.
const (
	fixedLimit    = "fixed limit" // also weir's, set to the known capacity
	adaptive      = "weir adaptive"
	adaptiveStale = "weir adaptive, stale on overload"
)

// An overloadSetup describes the database and a query.
type overloadSetup struct {
	URL  string
	Pool int           // connections
	Call time.Duration // how long a query sleeps in the database
	Keys int           // for the variant with stale responses
}

// overloadWarmup is how long a load runs before it counts: over a hundred times the
// duration of a query, which a limiter may need to find its limit.
const overloadWarmup = 2500 * time.Millisecond

// coldStart is a load without the warm-up.
const coldStart = "3 × the capacity, from a cold start"

func times(factor float64) string {
	return strconv.FormatFloat(factor, 'g', -1, 64) + " × the capacity"
}

// judged is the load that the checks use, as a multiple of the capacity.
const judged = 3

func runOverload(ctx context.Context, l *scenario.Lab) error {
	pg, err := l.Engine(ctx, "postgres", func(ctx context.Context) (*engine.Server, error) {
		// Canceled queries end their connections, so there must be room for new ones
		// until the database notices.
		return engine.Postgres(ctx, engine.PostgresOptions{Settings: map[string]string{"max_connections": "300"}})
	})
	if err != nil {
		return err
	}
	set := overloadSetup{
		URL:  pg.URL,
		Pool: scenario.Size(l, 20, 4),
		Call: scenario.Size(l, 20*time.Millisecond, 5*time.Millisecond),
		Keys: scenario.Size(l, 1000, 300),
	}
	capacity, err := measureCapacity(ctx, l, set)
	if err != nil {
		return err
	}
	for _, variant := range []string{unprotected, fixedLimit, adaptive, adaptiveStale} {
		if err := measureOverload(ctx, l, set, variant, capacity); err != nil {
			return err
		}
	}
	judgeOverload(l, set, capacity)
	l.Note("A response that takes longer than %v counts as failed: its caller has hung up. "+
		"In the unprotected variant its query is canceled when the service notices (pgx closes the connection and opens another); the database's work for it is wasted.", overloadTimeout(l))
	l.Note("Each limiter is reset before each load, and finds its limit during the first %v of the load, which do not count. \"%s\" has no such warm-up.", overloadWarmup, coldStart)
	return nil
}

// overloadTimeout is how long a client waits. It is so short that the generator has a
// client for every request in flight: a request sent late for lack of a client would
// not be the service's fault.
func overloadTimeout(l *scenario.Lab) time.Duration {
	return scenario.Size(l, 500*time.Millisecond, 5*time.Second)
}

// measureCapacity measures the queries per second that the database answers through
// the service, with twice as many clients as connections, so that no connection is
// ever idle.
func measureCapacity(ctx context.Context, l *scenario.Lab, set overloadSetup) (perSecond float64, err error) {
	s, err := l.Serve(ctx, unprotected, set)
	if err != nil {
		return 0, err
	}
	m, err := l.Measure(ctx, s, scenario.Job{Variant: "capacity, by a closed loop", Load: load.Spec{
		Mode:     load.Closed,
		Clients:  2 * set.Pool,
		Warmup:   scenario.Size(l, time.Second, 100*time.Millisecond),
		Duration: scenario.Size(l, 4*time.Second, 400*time.Millisecond),
	}})
	if err != nil {
		return 0, err
	}
	if m.Good == 0 || m.Failures > 0 {
		return 0, fmt.Errorf("measuring the capacity: %d requests of %d failed: %s", m.Failures, m.Requests, m.FirstFailure)
	}
	return m.PerSecond, s.Stop()
}

// measureOverload measures a variant at all loads.
func measureOverload(ctx context.Context, l *scenario.Lab, set overloadSetup, variant string, capacity float64) error {
	s, err := l.Serve(ctx, variant, set)
	if err != nil {
		return err
	}
	arrivals := func(factor float64) load.Spec {
		return load.Spec{
			Mode:     load.Open,
			Rate:     factor * capacity,
			Timeout:  overloadTimeout(l),
			Duration: scenario.Size(l, 6*time.Second, 500*time.Millisecond),
		}
	}
	if variant == adaptive {
		if _, err := l.Measure(ctx, s, scenario.Job{Setting: coldStart, Load: arrivals(judged)}); err != nil {
			return err
		}
	}
	factors := scenario.Size(l, []float64{0.5, 0.8, 1, 1.5, 2, judged, 5}, []float64{0.5, judged})
	if variant == adaptive && !l.Small {
		factors = append(factors, judged, judged) // the check uses the median of three
	}
	rounds := make(map[float64]int)
	for _, factor := range factors {
		rounds[factor]++
		j := scenario.Job{X: factor, Setting: times(factor), Round: rounds[factor], Load: arrivals(factor)}
		j.Load.Warmup = scenario.Size(l, overloadWarmup, 300*time.Millisecond)
		var told string
		refusing := factor == judged && (variant == fixedLimit || variant == adaptive)
		if refusing {
			j.During = func(ctx context.Context) error {
				told = retryAfter(ctx, s.URL)
				return nil
			}
		}
		m, err := l.Measure(ctx, s, j)
		if err != nil {
			return err
		}
		checkOverload(l, set, variant, m)
		if refusing {
			// A small run on a busy machine may offer too little for a rejection.
			l.Check(variant+": a rejection has Retry-After", told != "" || l.Small && m.Statuses[http.StatusServiceUnavailable] == 0, "Retry-After: %q", told)
		}
	}
	return s.Stop()
}

// retryAfter sends requests until one is rejected, and returns the rejection's
// Retry-After. It sends one every few milliseconds, whether or not the earlier ones have
// a response: one that waits in the queue must not keep it from the next.
func retryAfter(ctx context.Context, url string) string {
	ctx, cancel := context.WithCancel(ctx)
	const most = 64 // requests at a time
	told := make(chan string, most)
	places := make(chan struct{}, most)
	var requests sync.WaitGroup
	defer requests.Wait()
	defer cancel() // before the wait
	for {
		select {
		case places <- struct{}{}:
			requests.Go(func() {
				defer func() { <-places }()
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
				if err != nil {
					return
				}
				if resp, err := http.DefaultClient.Do(req); err == nil {
					resp.Body.Close()
					if resp.StatusCode == http.StatusServiceUnavailable {
						told <- resp.Header.Get("Retry-After")
					}
				}
			})
		default:
		}
		select {
		case value := <-told:
			return value
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return ""
		}
	}
}

// checkOverload checks what must hold at any load.
func checkOverload(l *scenario.Lab, set overloadSetup, variant string, m result.Measurement) {
	at := fmt.Sprintf("%s, %s: ", variant, m.Setting)
	refused := m.Statuses[http.StatusServiceUnavailable]
	l.Check(at+"every request is accounted for, and no response is another request's",
		m.Good+m.Failures == m.Requests && refused <= m.Failures && m.Values[wrongAnswers] == 0,
		"%d requests: %d good, %d refused, %d failed; %.0f wrong", m.Requests, m.Good, refused, m.Failures-refused, m.Values[wrongAnswers])
	l.Check(fmt.Sprintf("%sat most %d queries at once", at, set.Pool), m.Source.Most <= set.Pool, "%d", m.Source.Most)
	switch variant {
	case fixedLimit, adaptive:
		l.Check(at+"all failures are rejections", m.Failures == refused, "%d", m.Failures-refused)
	case adaptiveStale:
		l.Check(at+"no request fails or is rejected", m.Failures == 0, "%d", m.Failures)
		if m.X >= judged {
			l.Check(at+"some answers are stale", m.Values[staleAnswers] > 0, "%.0f", m.Values[staleAnswers])
		}
	}
}

// judgeOverload compares the variants and records the checks.
func judgeOverload(l *scenario.Lab, set overloadSetup, capacity float64) {
	at := func(variant string, factor float64) result.Measurement {
		return result.Groups(l.Measurements(variant, times(factor)))[0].Median
	}
	idle := at(unprotected, 0.5)
	table := result.Table{
		Title: fmt.Sprintf("At %d times the capacity of %.0f queries per second", judged, capacity),
		Head:  []string{"variant", "answers in time, of the capacity", "p99 ms", "p99, of idle", "refused", "failed"},
	}
	for _, variant := range []string{unprotected, fixedLimit, adaptive, adaptiveStale} {
		m := at(variant, judged)
		refused := m.Statuses[http.StatusServiceUnavailable]
		share := func(n int64) string { return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(max(1, m.Requests))) }
		table.Cells = append(table.Cells, []string{
			variant, fmt.Sprintf("%.3f", m.PerSecond/capacity), fmt.Sprintf("%.1f", p99(m)), fmt.Sprintf("%.2f", p99(m)/p99(idle)),
			share(refused), share(m.Failures - refused),
		})
	}
	l.Table(table)

	none, found, stale := at(unprotected, judged), at(adaptive, judged), at(adaptiveStale, judged)
	l.CheckTime(fmt.Sprintf("weir adaptive, %d ×: at least 95 %% of the capacity", judged), found.PerSecond >= 0.95*capacity,
		"%.1f of %.1f answers per second, %.3f", found.PerSecond, capacity, found.PerSecond/capacity)
	l.CheckTime(fmt.Sprintf("weir adaptive, %d ×: p99 of admitted requests at most twice that of the idle database", judged), p99(found) <= 2*p99(idle),
		"%.1f ms; idle %.1f ms", p99(found), p99(idle))
	l.CheckTime(fmt.Sprintf("stale on overload, %d ×: more answers than the capacity", judged), stale.PerSecond > capacity,
		"%.1f per second", stale.PerSecond)
	l.Row(result.NewRow(fmt.Sprintf("answers in time at %d times the capacity", judged), "answers/s", result.Higher).
		Here(none.PerSecond, found.PerSecond).Under(capacity).Noted("the ceiling is the capacity"))
	l.Row(result.NewRow(fmt.Sprintf("the same, stale answers on overload, of %.0f", judged*capacity), "answers/s", result.Higher).
		Here(none.PerSecond, stale.PerSecond))
}

// p99 is the 99th percentile of the successful responses' latency, in milliseconds; 0 if
// there are none.
func p99(m result.Measurement) float64 {
	if m.Latency == nil {
		return 0
	}
	return m.Latency.P99
}

// Names of the counts of the service under overload.
const (
	wrongAnswers = "wrong answers"
	staleAnswers = "stale answers"
	theLimit     = "limit"
)

// overloadTTL is how long a value is fresh in the variant with stale responses: so
// short that hits are rare.
const overloadTTL = 100 * time.Millisecond

// An overloaded is the service under overload.
type overloaded struct {
	overloadSetup
	variant string
	pool    *pgxpool.Pool
	meter   scenario.Meter

	shield              atomic.Pointer[shield] // replaced by Reset
	keys                atomic.Int64           // handed out so far
	inside              atomic.Int64           // requests in the handler
	wrong, servedOnFail atomic.Int64
}

// A shield is the protection in front of the database, between two resets.
type shield struct {
	get   func(context.Context, int64) weir.Result[int64]
	limit func() float64
}

func overloadService(ctx context.Context, o scenario.Options) (*scenario.Service, error) {
	s := &overloaded{variant: o.Variant}
	if err := o.Decode(&s.overloadSetup); err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(s.URL)
	if err != nil {
		return nil, err
	}
	config.MaxConns, config.MinConns = int32(s.Pool), int32(s.Pool)
	if s.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, err
	}
	if err := s.reset(ctx); err != nil {
		s.pool.Close()
		return nil, err
	}
	return &scenario.Service{
		Handler: s,
		Meter:   &s.meter,
		Gauges: map[string]func() float64{
			// This counts requests in a limiter's queue and in the pool's.
			result.QueueDepth: func() float64 { return max(0, float64(s.inside.Load())-float64(s.meter.Running())) },
			theLimit:          func() float64 { return s.shield.Load().limit() },
		},
		Values: func() map[string]float64 {
			return map[string]float64{
				wrongAnswers: float64(s.wrong.Load()),
				staleAnswers: float64(s.servedOnFail.Load()),
				theLimit:     s.shield.Load().limit(),
			}
		},
		Reset: s.reset,
		Close: s.pool.Close,
	}, nil
}

// query queries the database for key, with a query that takes set.Call.
func (s *overloaded) query(ctx context.Context, key int64) (answer int64, err error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Release()
	defer s.meter.Begin()()
	err = conn.QueryRow(ctx, "SELECT $1::bigint FROM pg_sleep($2)", key, s.Call.Seconds()).Scan(&answer)
	return answer, err
}

// reset installs a new, empty shield.
func (s *overloaded) reset(ctx context.Context) error {
	s.wrong.Store(0)
	s.servedOnFail.Store(0)
	options, found := weir.Options{}, func() float64 { return float64(s.Pool) }
	switch s.variant {
	case unprotected:
		s.shield.Store(&shield{limit: found, get: func(ctx context.Context, key int64) weir.Result[int64] {
			answer, err := s.query(ctx, key)
			return weir.Result[int64]{Value: answer, Err: err}
		}})
		return nil
	case fixedLimit:
		fixed, err := limit.NewConcurrency(limit.ConcurrencyOptions{Name: "database", Limit: s.Pool, Queue: s.Pool})
		if err != nil {
			return err
		}
		options.Limiter = fixed
	case adaptive, adaptiveStale:
		finds, err := limit.NewAdaptive(limit.AdaptiveOptions{Name: "database"})
		if err != nil {
			return err
		}
		options.Limiter, found = finds, func() float64 { return float64(finds.Limit()) }
	default:
		return fmt.Errorf("scenarios: no variant %q", s.variant)
	}
	if s.variant == adaptiveStale {
		options.TTL, options.StaleIfError = overloadTTL, time.Hour
	}
	g, err := weir.New(s.query, options)
	if err != nil {
		return err
	}
	s.shield.Store(&shield{g.GetResult, found})
	if s.variant == adaptiveStale {
		return s.fill(ctx, g)
	}
	return nil
}

// fill loads each key once, so that there are values to become stale.
func (s *overloaded) fill(ctx context.Context, g *weir.Guard[int64, int64]) error {
	keys := make(chan int64)
	errs := make(chan error, s.Pool)
	var workers sync.WaitGroup
	for range s.Pool / 2 { // below the initial limit, so that no call is rejected
		workers.Go(func() {
			for key := range keys {
				if _, err := g.Get(ctx, key); err != nil {
					errs <- err
					for range keys { // after an error the others are dropped
					}
				}
			}
		})
	}
	for key := range s.Keys {
		keys <- int64(key)
	}
	close(keys)
	workers.Wait()
	select {
	case err := <-errs:
		return fmt.Errorf("scenarios: fill the memory: %w", err)
	default:
		return nil
	}
}

// ServeHTTP serves the database's value for a key: a new key each time, or for stale
// responses a key that was requested before.
func (s *overloaded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.inside.Add(1)
	defer s.inside.Add(-1)
	key := s.keys.Add(1)
	if s.variant == adaptiveStale {
		key = rand.Int64N(int64(s.Keys))
	}
	answer := s.shield.Load().get(r.Context(), key)
	if answer.Err != nil {
		answerError(w, answer.Err)
		return
	}
	if answer.Value != key {
		s.wrong.Add(1)
	}
	if answer.State == weir.StateStaleOnError {
		s.servedOnFail.Add(1)
	}
	fmt.Fprintln(w, strconv.FormatInt(answer.Value, 10))
}
