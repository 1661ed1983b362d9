package scenarios

import (
	"context"
	"slices"
	"time"

	"github.com/weir-go/weir/lab/engine"
	"github.com/weir-go/weir/lab/internal/cpu"
	"github.com/weir-go/weir/lab/load"
	"github.com/weir-go/weir/lab/result"
	"github.com/weir-go/weir/lab/scenario"
)

var sqlToNoSQL = scenario.Scenario{
	Name:  "sql-to-nosql",
	Title: "PostgreSQL, Cassandra, and single writes that go together",
	Asks:  "When does it pay to leave PostgreSQL for Cassandra, and how far does batching single writes and reads go instead?",
	Published: &result.Published{
		Title: "highload-patterns, SQL to NoSQL",
		URL:   "https://github.com/agadzhanyan/highload-patterns",
		Setup: "A handler inserts an activity (an id, a user's id, the time, a document of 100 letters) for each request, into PostgreSQL or into Cassandra. wrk sends requests for 5 s, with 1 connection and with 12.",
		FromSource: []string{
			"Database and handler are held to one CPU each; Cassandra has a heap of 1,000 MB and is a single node, with one copy of each row and the id for its partition.",
			"Durability has the defaults: PostgreSQL flushes its log to the disk before it acknowledges, Cassandra acknowledges at once and flushes every 10 s.",
			"The id is text in PostgreSQL and a UUID in Cassandra; the document is JSON there and bytes here.",
		},
		Inconsistencies: []string{
			"The command printed for the second run of each is wrk -t3 -c3; its output shows 12 threads and 12 connections.",
		},
		Flaws: []string{
			"It compares unequal guarantees: one database has the row on disk when it acknowledges, the other does not. Here both are measured with both guarantees.",
			"The handler for PostgreSQL does not close the row that it queries. Its connection becomes free only when the end of the request cancels the finished query. About once in five requests the driver then drops the connection and opens another to send the cancellation. Here the pool is bounded and keeps its connections.",
			"The driver for Cassandra keeps its default of delaying requests to write them together, which slows clients that wait for each response. Here it does not delay them.",
			"A failed insert gives status 200 and counts as good. Here it is a 500, and the acknowledged rows are compared with the table.",
		},
	},
	Needs:   []string{"postgres", "cassandra", "wrk"},
	Axis:    "connections",
	Service: activityService,
	Run:     runSQLToNoSQL,
}

// The variants.
const (
	onPostgres       = "PostgreSQL"
	onCassandra      = "Cassandra"
	batchedPostgres  = "weir batch, PostgreSQL"
	batchedCassandra = "weir batch, Cassandra"
)

// activityPlans are the plans of the variants, in the order of the first round.
var activityPlans = []struct {
	variant string
	plan    activityPlan
}{
	{onPostgres, activityPlan{}},
	{batchedPostgres, activityPlan{Batch: true}},
	{onCassandra, activityPlan{Cassandra: true}},
	{batchedCassandra, activityPlan{Cassandra: true, Batch: true}},
	{ceiling, activityPlan{}},
}

// postgresVariants are the variants of PostgreSQL, databaseVariants those of both
// databases.
var (
	postgresVariants = []string{onPostgres, batchedPostgres}
	databaseVariants = []string{onPostgres, batchedPostgres, onCassandra, batchedCassandra}
)

// The settings.
const (
	insertsFlushed  = "inserts, flushed before the answer"
	insertsDirect   = "inserts without HTTP, flushed before the answer"
	insertsPeriodic = "inserts, flushed later"
	readsByID       = "reads by id"
)

// An activityLoad is the size of the load, and its target.
type activityLoad struct {
	setting     string
	connections []int
	rounds      int
	wrk         time.Duration // duration with wrk, as published; 0: the lab's own generator
	variants    []string      // nil: all
}

const (
	// activityTime is the duration of the load of the lab's own generator.
	activityTime = 2 * time.Second
	// activityWarmup is the warm-up before it.
	activityWarmup = 300 * time.Millisecond
)

func runSQLToNoSQL(ctx context.Context, l *scenario.Lab) error {
	pg, err := l.Engine(ctx, "PostgreSQL", func(ctx context.Context) (*engine.Server, error) {
		return engine.Postgres(ctx, engine.PostgresOptions{Durable: true, Settings: map[string]string{
			"max_connections": "200", // two services at a time, and the connections that check them
			"max_wal_size":    "8GB", // otherwise the server writes out its pages during a measurement
		}})
	})
	if err != nil {
		return err
	}
	if err := holdEngine(pg, l.Share("postgres", 1)); err != nil {
		return err
	}
	a := &activityRun{lab: l, archived: scenario.Size(l, 10_000, 200), counts: make(map[string]activityCount)}
	if err := a.prepare(ctx, activityPlan{Address: pg.URL, Flush: true}); err != nil {
		return err
	}
	rounds := scenario.Size(l, 3, 1)
	wrk, wrkTime := scenario.Size(l, []int{1, 12}, []int{12}), scenario.Size(l, 5*time.Second, time.Second)
	few, many := scenario.Size(l, []int{12, 64}, []int{12}), scenario.Size(l, []int{64, 256}, []int{64})
	err = a.durability(ctx, pg, engine.SyncBatch,
		activityLoad{insertsFlushed, wrk, 1, wrkTime, nil},
		activityLoad{insertsFlushed, many, rounds, 0, nil},
		activityLoad{insertsDirect, append([]int{12}, many...), rounds, 0, postgresVariants},
		activityLoad{readsByID, few, min(rounds, 2), 0, nil},
	)
	if err == nil && !l.Small { // starting another Cassandra takes longer than everything else
		err = a.durability(ctx, pg, engine.SyncPeriodic,
			activityLoad{insertsPeriodic, wrk, 1, wrkTime, databaseVariants},
			activityLoad{insertsPeriodic, many, 1, 0, databaseVariants},
		)
	}
	if err != nil {
		return err
	}
	a.judge()
	a.rows()
	a.choice()
	a.notes()
	return nil
}

func holdEngine(s *engine.Server, share *cpu.Share) error {
	if share == nil {
		return nil
	}
	return share.Add(s.Pid())
}

// An activityRun is a run of the scenario.
type activityRun struct {
	lab      *scenario.Lab
	archived int
	counts   map[string]activityCount // by variant, of all measurements
}

// prepare creates the tables of a database and fills the archive.
func (a *activityRun) prepare(ctx context.Context, p activityPlan) error {
	a.lab.Step("filling the archive")
	s, err := p.open(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.create(ctx); err != nil {
		return err
	}
	var all []activity
	for i := range a.archived {
		all = append(all, activityOf(archivedID(i)))
	}
	return s.archive(ctx, all)
}

// durability measures both databases with the same durability setting.
func (a *activityRun) durability(ctx context.Context, pg *engine.Server, sync engine.Sync, loads ...activityLoad) error {
	l := a.lab
	cassandra, err := l.Engine(ctx, "Cassandra", func(ctx context.Context) (*engine.Server, error) {
		return engine.Cassandra(ctx, engine.CassandraOptions{Sync: sync})
	})
	if err != nil {
		return err
	}
	defer cassandra.Stop() //nolint:errcheck // the lab stops it too, and reports errors
	if err := holdEngine(cassandra, l.Share("cassandra", 1)); err != nil {
		return err
	}
	if err := a.prepare(ctx, activityPlan{Cassandra: true, Address: cassandra.URL}); err != nil {
		return err
	}
	var servers []*scenario.Server
	for _, v := range activityPlans {
		p := v.plan
		p.Address, p.Flush, p.Archived = pg.URL, sync != engine.SyncPeriodic, a.archived
		if p.Cassandra {
			p.Address = cassandra.URL
		}
		s, err := l.Serve(ctx, v.variant, p)
		if err != nil {
			return err
		}
		defer s.Stop() //nolint:errcheck // as above
		servers = append(servers, s)
	}
	for _, load := range loads {
		if err := a.byTurns(ctx, servers, load); err != nil {
			return err
		}
	}
	return nil
}

// byTurns measures the services in rounds, each of which begins with a different one.
func (a *activityRun) byTurns(ctx context.Context, servers []*scenario.Server, what activityLoad) error {
	for _, connections := range what.connections {
		for round := range what.rounds {
			for i := range servers {
				s := servers[(round+i)%len(servers)]
				if what.variants != nil && !slices.Contains(what.variants, s.Variant) {
					continue
				}
				if err := a.measure(ctx, s, what, connections, round+1); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// measure measures one service, and counts the inserted rows in the database.
func (a *activityRun) measure(ctx context.Context, s *scenario.Server, what activityLoad, connections, round int) error {
	path := "/insert"
	if what.setting == readsByID {
		path = "/read"
	}
	job := scenario.Job{Setting: what.setting, X: float64(connections), Round: round, Load: load.Spec{
		URLs: []string{path}, Clients: connections, Duration: scenario.Size(a.lab, activityTime, 200*time.Millisecond), Warmup: scenario.Size(a.lab, activityWarmup, 0),
	}}
	var m result.Measurement
	var err error
	switch {
	case what.setting == insertsDirect:
		m, err = a.drive(ctx, s, job)
	case what.wrk > 0:
		m, err = a.lab.Wrk(ctx, s, connections, what.wrk, job)
	default:
		m, err = a.lab.Measure(ctx, s, job)
	}
	if err != nil || what.setting == readsByID || s.Variant == ceiling {
		return err
	}
	var found activityCount
	if err := control(ctx, s, "/compare", &found); err != nil {
		return err
	}
	// An acknowledged row that is missing from the ledger is lost too. The ledger can
	// have more rows: those of the warm-up, and those whose clients hung up.
	found.Lost += max(0, int(m.Good)-found.Acknowledged)
	sum := a.counts[s.Variant]
	sum.add(found)
	a.counts[s.Variant] = sum
	return nil
}
