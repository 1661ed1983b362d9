package outbox

import (
	"context"
	"errors"

	"github.com/weir-go/weir/jobs"
)

// submitNew submits the rows that need no lookup before, with one write for each version
// of the input, and sets their verdicts. It returns the other rows.
//
// A row that a relay claimed before is not among them: it may be a job already, and the
// refusal of a full store, which comes without a lookup, would not show that.
func (b *batch) submitNew(ctx, within context.Context) (others []*row) {
	byVersion := make(map[int]*group)
	var groups []*group // in the order of their first rows
	for _, r := range b.rows {
		o, inTime := b.options(r)
		if !inTime || !r.finite || r.tried.Valid || r.size > b.l.o.MaxInput {
			others = append(others, r)
			continue
		}
		g := byVersion[r.version]
		if g == nil {
			g = &group{}
			byVersion[r.version], groups = g, append(groups, g)
		}
		g.rows = append(g.rows, r)
		g.all = append(g.all, jobs.Submission[[]byte]{Input: r.data(), Options: o})
	}
	for _, g := range groups {
		for len(g.rows) > 0 {
			n := len(g.rows)
			if b.l.wasFull { // it probably still is, and each refusal costs a lookup
				n = min(n, b.l.r.o.Parallel)
			}
			b.submitMany(ctx, within, g.rows[:n], g.all[:n])
			g.rows, g.all = g.rows[n:], g.all[n:]
		}
	}
	return others
}

// A group is new rows of one version and their submissions.
type group struct {
	rows []*row
	all  []jobs.Submission[[]byte]
}

// submitMany submits rows of one version, and sets their verdicts.
func (b *batch) submitMany(ctx, within context.Context, rows []*row, all []jobs.Submission[[]byte]) {
	q := b.queue(ctx, within, rows[0])
	if q == nil {
		for _, r := range rows {
			r.verdict = r.untouched()
		}
		return
	}
	handles, err := q.SubmitMany(within, all)
	var failed jobs.SubmitErrors
	if !errors.As(err, &failed) && err != nil { // nothing was submitted
		b.fail(err)
		handles = nil
	}
	for i, r := range rows {
		switch {
		case handles == nil:
			r.verdict = r.untouched()
		case handles[i] != nil:
			r.verdict = b.job(within, r, handles[i].Joined())
		default:
			r.verdict = b.refused(within, r, failed[i])
		}
	}
}
