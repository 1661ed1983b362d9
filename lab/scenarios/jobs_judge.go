package scenarios

import (
	"cmp"
	"fmt"
	"time"

	"github.com/weir-go/weir/lab/jobslab"
	"github.com/weir-go/weir/lab/result"
)

// Targets for weir's jobs.
const (
	leastDurable = 3500 // accepted per second, flushed, by 64 submitters
	leastOfAsynq = 0.5  // accepted per second, not flushed, by 64 submitters
	mostToStart  = 2    // ms at the median, from Submit to the start

	restartMost = 12 * time.Second // after its worker was killed, with the default lease
)

func (r *jobsRun) judge() {
	l := r.lab
	for _, v := range append([]string{weirMany, riverMany, riverDefaults, asynqDefaults}, jobsVariants...) {
		r.nothingLost(v)
	}
	durable := medianOf(l, weirDisk, submitMany).PerSecond
	l.CheckTime(fmt.Sprintf("weir, disk, 64 submitters: at least %d accepted per second", leastDurable), durable >= leastDurable, "%.0f", durable)
	accepted := result.Ratio(l.Rates(weirProcess, submitMany), l.Rates(onAsynq, submitMany))
	l.CheckTime(fmt.Sprintf("weir, process, 64 submitters: at least %g of what asynq accepts", leastOfAsynq), accepted.Median >= leastOfAsynq, "%v", accepted)
	worked := result.Ratio(l.Rates(weirDisk, workOff), l.Rates(onRiver, workOff))
	l.CheckTime("weir, disk: executes at least 1.0 of River's jobs per second (lower bound at least 0.97)", worked.Low >= 0.97, "%v", worked)
	for _, v := range []string{weirDisk, weirProcess} {
		p50 := medianOf(l, v, lightLoad).Latency.P50
		l.CheckTime(fmt.Sprintf("%s: a job starts within %d ms of Submit, at the median", v, mostToStart), p50 < mostToStart, "%.2f ms", p50)
	}
	again := l.Measurements(weirDisk, workerKilled)[0].Values[startedAgain]
	l.Check("weir: all jobs of a killed worker start again", again > 0, "the last of %d after %.1f s", r.set.Held, again)
	l.CheckTime(fmt.Sprintf("weir: within %v", restartMost), again <= restartMost.Seconds(), "the last of %d after %.1f s", r.set.Held, again)

	l.Table(r.table(again))
	r.rows()
	r.notes()
}

// nothingLost checks all rounds of a variant under all settings.
func (r *jobsRun) nothingLost(variant string) {
	var asked, failed int64
	var first string
	for _, m := range r.lab.Measurements(variant, "") {
		asked += m.Requests
		failed += m.Failures
		first = cmp.Or(first, m.FirstFailure)
	}
	found := fmt.Sprintf("%d of %d", failed, asked)
	if first != "" {
		found += ": " + first
	}
	r.lab.Check(variant+": no job is rejected or lost", failed == 0, "%s", found)
}

// table has a row for each question and a column for each variant.
func (r *jobsRun) table(again float64) result.Table {
	t := result.Table{Title: "Results, each the median of its rounds", Head: append([]string{""}, jobsVariants...)}
	line := func(what string, of func(variant string) string) {
		cells := []string{what}
		for _, v := range jobsVariants {
			cells = append(cells, of(v))
		}
		t.Cells = append(t.Cells, cells)
	}
	rate := func(setting string) func(string) string {
		return func(v string) string { return valueOf(medianOf(r.lab, v, setting).PerSecond, 0) }
	}
	line("accepted jobs survive", func(v string) string {
		return map[string]string{weirDisk: "loss of power", weirProcess: "a kill", onRiver: "loss of power", onAsynq: "nothing of Redis"}[v]
	})
	line("accepted per second, 1 submitter", rate(submitOne))
	line("8 submitters", rate(submitEight))
	line("64 submitters", rate(submitMany))
	line("1 submitter, 1,000 per call", func(v string) string {
		if manyOf[v] == "" {
			return "–"
		}
		return valueOf(medianOf(r.lab, manyOf[v], submitOne).PerSecond, 0)
	})
	line("drained per second", rate(workOff))
	line("with this many workers", func(v string) string { return fmt.Sprint(r.workers[v]) })
	line("executed while jobs are accepted, per second", rate(bothAtOnce))
	line("accepted at the same time, per second", func(v string) string {
		return valueOf(medianOf(r.lab, v, bothAtOnce).Values[jobslab.SubmittedRate], 0)
	})
	line("from Submit to start, p50, ms", func(v string) string { return valueOf(medianOf(r.lab, v, lightLoad).Latency.P50, 2) })
	line("p99, ms", func(v string) string { return valueOf(medianOf(r.lab, v, lightLoad).Latency.P99, 2) })
	line("with its defaults, p50, ms", func(v string) string {
		d := map[string]string{weirDisk: weirDisk, weirProcess: weirProcess, onRiver: riverDefaults, onAsynq: asynqDefaults}[v]
		return valueOf(medianOf(r.lab, d, lightLoad).Latency.P50, 2)
	})
	line("a killed worker's job starts again after", func(v string) string {
		return map[string]string{weirDisk: valueOf(again, 1) + " s", weirProcess: "the same", onRiver: "1 hour*", onAsynq: "1 to 3 min*"}[v]
	})
	return t
}

func (r *jobsRun) rows() {
	for _, row := range []struct{ what, before, after, setting string }{
		{"jobs executed per second: River → weir, disk", onRiver, weirDisk, workOff},
		{"jobs accepted per second, 64 submitters: River → weir, disk", onRiver, weirDisk, submitMany},
		{"jobs accepted per second, 64 submitters: asynq → weir, process", onAsynq, weirProcess, submitMany},
	} {
		r.lab.Row(result.NewRow(row.what, "jobs/s", result.Higher).
			Here(medianOf(r.lab, row.before, row.setting).PerSecond, medianOf(r.lab, row.after, row.setting).PerSecond))
	}
	before, after := medianOf(r.lab, onRiver, lightLoad), medianOf(r.lab, weirDisk, lightLoad)
	r.lab.Row(result.NewRow("from Submit to start at 50 jobs/s, median: River → weir, disk", "ms", result.Lower).
		Here(before.Latency.P50, after.Latency.P50))
}

func (r *jobsRun) notes() {
	r.lab.Note("A job is a number, and its handler returns at once, so only the queue is measured. Submitters and workers are in one process, with the server in the process (weir) or next to it (PostgreSQL, Redis), on all processors.")
	r.lab.Note("A system has executed all jobs when it has none left: %d jobs, timed from the start of the workers. River completes jobs shortly after their handlers return, many at a time; weir keeps a result for each, River a row, asynq nothing.", r.set.Jobs)
	r.lab.Note("River v0.51.1 with riverpgxv5 on PostgreSQL with fsync and synchronous_commit on; FetchCooldown %v and FetchPollInterval %v, as in its own benchmark. asynq v0.26.0 on Redis without appendonly, which is Redis' default, and without snapshots; TaskCheckInterval %v.", riverCooldown, riverPoll, asynqCheck)
	r.lab.Note("* From their documentation. River: RescueStuckJobsAfter, an hour by default, which must be longer than any job may run. asynq: a lease of 30 s, 30 s more for clock skew, checked once a minute, and then its retry delay, 15 s to 45 s.")
}
