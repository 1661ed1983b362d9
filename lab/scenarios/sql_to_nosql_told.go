package scenarios

import (
	"fmt"
	"strings"

	"github.com/weir-go/weir/lab/result"
)

// batchingGain is how many times faster batched inserts must be at some number of
// connections.
const batchingGain = 5

// judge records the checks.
func (a *activityRun) judge() {
	l := a.lab
	for _, v := range activityPlans {
		if v.variant == ceiling {
			continue
		}
		c := a.counts[v.variant]
		l.Check(v.variant+": no row is lost", c.Lost == 0 && c.Stored >= c.Acknowledged && c.Stored > 0,
			"%d acknowledged, %d in the database, %d lost", c.Acknowledged, c.Stored, c.Lost)
		l.Check(v.variant+": no row is duplicated, altered or invented", c.Doubled+c.Wrong+c.Unasked == 0,
			"%d duplicated, %d altered, %d invented", c.Doubled, c.Wrong, c.Unasked)
		if !v.plan.Batch {
			continue
		}
		var failed, requests, statements int64
		for _, m := range l.Measurements(v.variant, "") {
			failed += m.Failures
			requests += m.Requests
			statements += m.Source.Calls
		}
		l.Check(v.variant+": no request fails", failed == 0 && c.Failed == 0, "%d of %d failed", failed+int64(c.Failed), requests)
		l.Check(v.variant+": fewer statements than requests", statements < requests, "%d statements for %d requests", statements, requests)
	}
	asked, from := a.gains(batchedPostgres, onPostgres, insertsFlushed)
	direct, fromDirect := a.gains(batchedPostgres, onPostgres, insertsDirect)
	l.CheckTime(fmt.Sprintf("PostgreSQL, flushed: batching at least %d times single inserts at 12 connections or more, or as many callers", batchingGain),
		from+fromDirect > 0, "%s; without HTTP, %s", asked, direct)
}

// gains lists how many times faster num is than den, by connections. from is the
// smallest number of connections, 12 or more, with a gain of batchingGain; 0 if there
// is none.
func (a *activityRun) gains(num, den, setting string) (text string, from float64) {
	var parts []string
	for _, g := range result.Groups(a.lab.Measurements(den, setting)) {
		x := g.Median.X
		gain := result.Ratio(a.rates(num, setting, x), a.rates(den, setting, x)).Median
		parts = append(parts, fmt.Sprintf("×%.1f at %.0f", gain, x))
		if from == 0 && x >= 12 && gain >= batchingGain {
			from = x
		}
	}
	return strings.Join(parts, ", "), from
}

// rates returns the successful responses per second of each round.
func (a *activityRun) rates(variant, setting string, x float64) []float64 {
	var all []float64
	for _, m := range a.lab.Measurements(variant, setting) {
		if m.X == x {
			all = append(all, m.PerSecond)
		}
	}
	return all
}

// median returns the median round; ok is false if it was not measured.
func (a *activityRun) median(variant, setting string, x float64) (m result.Measurement, ok bool) {
	for _, g := range result.Groups(a.lab.Measurements(variant, setting)) {
		if g.Median.X == x {
			return g.Median, true
		}
	}
	return m, false
}

// rows compares the measured figures with the published ones, and then adds those
// with batching.
func (a *activityRun) rows() {
	for _, r := range []struct {
		what                  string
		x                     float64
		before, after         string // variants
		settingB, settingA    string
		publishedB, published float64
		note                  string
	}{
		{"PostgreSQL → Cassandra, 1 connection", 1, onPostgres, onCassandra, insertsFlushed, insertsPeriodic, 521.43, 355.75, "guarantees as published: one flushes, the other does not"},
		{"PostgreSQL → Cassandra, 12 connections", 12, onPostgres, onCassandra, insertsFlushed, insertsPeriodic, 323.08, 1213.30, "guarantees as published: one flushes, the other does not"},
		{"PostgreSQL → Cassandra, flushed, 12 connections", 12, onPostgres, onCassandra, insertsFlushed, insertsFlushed, 0, 0, "both flush"},
		{"PostgreSQL → Cassandra, flushed later, 12 connections", 12, onPostgres, onCassandra, insertsPeriodic, insertsPeriodic, 0, 0, "neither flushes"},
		{"PostgreSQL, single → batched, flushed, 12 connections", 12, onPostgres, batchedPostgres, insertsFlushed, insertsFlushed, 0, 0, ""},
		{"PostgreSQL, single → batched, flushed, 64 connections", 64, onPostgres, batchedPostgres, insertsFlushed, insertsFlushed, 0, 0, ""},
		{"PostgreSQL, single → batched, flushed, 256 connections", 256, onPostgres, batchedPostgres, insertsFlushed, insertsFlushed, 0, 0, ""},
		{"PostgreSQL, single → batched, flushed, 64 callers without HTTP", 64, onPostgres, batchedPostgres, insertsDirect, insertsDirect, 0, 0, ""},
		{"PostgreSQL, single → batched, flushed, 256 callers without HTTP", 256, onPostgres, batchedPostgres, insertsDirect, insertsDirect, 0, 0, ""},
		{"Cassandra, single → batched, flushed, 256 connections", 256, onCassandra, batchedCassandra, insertsFlushed, insertsFlushed, 0, 0, "a single node"},
		{"PostgreSQL, single → batched, reads, 64 connections", 64, onPostgres, batchedPostgres, readsByID, readsByID, 0, 0, ""},
		{"Cassandra, single → batched, reads, 64 connections", 64, onCassandra, batchedCassandra, readsByID, readsByID, 0, 0, "a single node"},
	} {
		before, ok := a.median(r.before, r.settingB, r.x)
		after, okAfter := a.median(r.after, r.settingA, r.x)
		if !ok || !okAfter {
			continue // the small size has fewer connections
		}
		unit := "inserts/s"
		if r.settingB == readsByID {
			unit = "reads/s"
		}
		top, _ := a.median(ceiling, r.settingB, r.x)
		row := result.NewRow(r.what, unit, result.Higher).Here(before.PerSecond, after.PerSecond).Noted(r.note)
		if top.PerSecond > 0 {
			row = row.Under(top.PerSecond)
		}
		if r.published > 0 {
			row = row.Published(r.publishedB, r.published)
		}
		a.lab.Row(row)
	}
}

// clearly is the factor by which one must be faster to decide the choice.
const clearly = 1.25

// choice shows when to choose which database: first from the measurements, then from
// properties that a measurement of inserts does not show.
func (a *activityRun) choice() {
	t := result.Table{
		Title: "When to choose which",
		Head:  []string{"your case", onPostgres, onCassandra, "take"},
	}
	for _, c := range []struct {
		what                string
		postgres, cassandra string // variants
		setting             string
		x                   float64
	}{
		{"one writer that waits for each acknowledgement, inserts/s, flushed", onPostgres, onCassandra, insertsFlushed, 1},
		{"one writer, inserts/s, flushed later", onPostgres, onCassandra, insertsPeriodic, 1},
		{"12 writers, inserts/s, flushed", onPostgres, onCassandra, insertsFlushed, 12},
		{"12 writers, inserts/s, flushed later", onPostgres, onCassandra, insertsPeriodic, 12},
		{"256 writers, inserts/s, flushed", onPostgres, onCassandra, insertsFlushed, 256},
		{"256 writers, inserts/s, flushed, batched by weir", batchedPostgres, batchedCassandra, insertsFlushed, 256},
		{"256 writers, inserts/s, flushed later", onPostgres, onCassandra, insertsPeriodic, 256},
		{"256 writers, inserts/s, flushed later, batched by weir", batchedPostgres, batchedCassandra, insertsPeriodic, 256},
		{"64 readers by id, reads/s", onPostgres, onCassandra, readsByID, 64},
		{"64 readers by id, reads/s, batched by weir", batchedPostgres, batchedCassandra, readsByID, 64},
	} {
		p, ok := a.median(c.postgres, c.setting, c.x)
		q, okToo := a.median(c.cassandra, c.setting, c.x)
		if !ok || !okToo {
			continue // the small size has fewer connections
		}
		t.Cells = append(t.Cells, []string{c.what, fmt.Sprintf("%.0f", p.PerSecond), fmt.Sprintf("%.0f", q.PerSecond), fasterStore(p.PerSecond, q.PerSecond)})
	}
	t.Cells = append(t.Cells, inWordsOnly...)
	a.lab.Table(t)
	a.statements()
}

func fasterStore(postgres, cassandra float64) string {
	switch {
	case postgres >= clearly*cassandra:
		return fmt.Sprintf("PostgreSQL, ×%.1f", postgres/cassandra)
	case cassandra >= clearly*postgres:
		return fmt.Sprintf("Cassandra, ×%.1f", cassandra/postgres)
	}
	return "either"
}

// inWordsOnly are the rows that were not measured.
var inWordsOnly = [][]string{
	{"lost in a power failure, flushed later", "the last 0.6 s", "the last 10 s, of this node", "flush before acknowledging important rows"},
	{"more writes than one machine takes", "one machine writes", "each further node takes a share", onCassandra},
	{"failure of a machine or a site", "a replica takes over, after a short time without writes", "the other copies go on", "Cassandra if writes may never pause"},
	{"queries not known yet", "any query, any index, later", "a table for each query, written and backfilled for it", onPostgres},
	{"joins and sums", "yes", "none: compute them when rows are written", onPostgres},
	{"atomic changes", "transactions over rows and tables", "within one partition; a condition on a row costs round trips between the replicas", onPostgres},
	{"unique values and sums", "constraints", "the last writer wins", onPostgres},
	{"changes of the schema", "ALTER TABLE, in a transaction; the data follows", "new columns are easy; a new key is a new table", onPostgres},
	{"operation", "one server and a replica", "three nodes or more, repair, compaction, tombstones, clocks", "PostgreSQL until it is too small"},
}

// statements adds the table of rows per statement.
func (a *activityRun) statements() {
	t := result.Table{Title: "Rows per statement", Head: []string{"load", "connections", batchedPostgres, batchedCassandra}}
	for _, setting := range []string{insertsFlushed, insertsPeriodic, readsByID} {
		for _, g := range result.Groups(a.lab.Measurements(batchedPostgres, setting)) {
			other, ok := a.median(batchedCassandra, setting, g.Median.X)
			if ok {
				t.Cells = append(t.Cells, []string{setting, fmt.Sprintf("%.0f", g.Median.X), rowsTogether(g.Median), rowsTogether(other)})
			}
		}
	}
	a.lab.Table(t)
}

// rowsTogether is the average number of requests per statement.
func rowsTogether(m result.Measurement) string {
	return fmt.Sprintf("%.1f", float64(m.Good)/float64(max(1, m.Source.Calls)))
}

// notes explains the figures.
func (a *activityRun) notes() {
	l := a.lab
	l.Note("Flushed before the answer: PostgreSQL with fsync and synchronous_commit on, Cassandra with commitlog_sync: batch. " +
		"Flushed later: PostgreSQL with synchronous_commit off, which flushes every 200 ms and loses at most three times that; Cassandra with commitlog_sync: periodic, every 10 s. The two guarantees are of the same kind, but the periods differ.")
	l.Note("Rows are counted in the running database. The lab does not test whether they survive a power failure; it relies on the databases' promise for the configured flushing.")
	l.Note("Each service has %d connections to PostgreSQL at most; batches hold up to %d rows in PostgreSQL and %d in Cassandra, %d statements at once, and no request waits for a batch to fill.",
		activityPool, postgresBatch, cassandraBatch, batchesAtOnce)
	l.Note("Batches for Cassandra span partitions here, for rows as for reads. On a single node that costs nothing extra; in a cluster one node would do the work of all. Read these figures as an upper bound, and batch within a partition.")
	l.Note("The archive has %d rows, all in memory. Batched reads go through a Guard without a TTL: nothing is cached.", a.archived)
	l.Note("On a machine with two processors the load generator uses one. The handler and its database, with a share of 1 CPU each, share the other.")
	for _, v := range [][2]string{{batchedPostgres, onPostgres}, {batchedCassandra, onCassandra}} {
		gains, _ := a.gains(v[0], v[1], insertsFlushed)
		l.Note("%s: batched versus single inserts, flushed, by connections: %s.", v[1], gains)
	}
}
