package jobsctl

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weir-go/weir/jobs"
)

// manyNamed is how many jobs are named that an id fits.
const manyNamed = 4

// Pick returns the jobs that ids name, each whole or by its beginning, once
// each. The error says of which ids it found none, or several; the jobs of the
// others are there all the same.
func Pick(ctx context.Context, s Source, queue string, ids []string) ([]jobs.Status, error) {
	var found []jobs.Status
	var faults []error
	for _, id := range ids {
		j, err := pickOne(ctx, s, queue, id)
		switch {
		case gone(err) || ctx.Err() != nil:
			return nil, err // nor would the next one be answered
		case err != nil:
			faults = append(faults, err)
		case !slices.ContainsFunc(found, func(have jobs.Status) bool { return have.ID == j.ID && have.Queue == j.Queue }):
			found = append(found, j)
		}
	}
	return found, errors.Join(faults...)
}

func pickOne(ctx context.Context, s Source, queue, id string) (jobs.Status, error) {
	page, err := s.List(ctx, Query{Queue: queue, ID: id, Limit: manyNamed})
	switch {
	case err != nil:
		return jobs.Status{}, err
	case len(page.Jobs) == 0:
		return jobs.Status{}, notFound(queue, id)
	case len(page.Jobs) > 1 || page.More:
		return jobs.Status{}, ambiguous(id, page)
	}
	return page.Jobs[0], nil
}

func notFound(queue, id string) error {
	where := ""
	if queue != "" {
		where = fmt.Sprintf(" in queue %q", queue)
	}
	return &problem{fmt.Sprintf("there is no job %s%s, or no longer: what is over is kept for a time only. "+
		`"weir jobs list" shows what there is`, id, where), jobs.ErrNotFound}
}

func ambiguous(id string, page Page) error {
	var names []string
	for _, j := range page.Jobs {
		names = append(names, fmt.Sprintf("%s (%s, %s)", j.ID[:min(len(j.ID), len(id)+4)], j.Queue, j.State))
	}
	more := ""
	if page.More {
		more = ", and more"
	}
	return &problem{fmt.Sprintf("%s is the beginning of several ids: %s%s; give more of it", id, Words(names, "and"), more), jobs.ErrConflict}
}

func isNotFound(err error) bool { return errors.Is(err, jobs.ErrNotFound) }

// wanted reports whether a job is in one of the states; none are all.
func wanted(j jobs.Status, states []jobs.State) bool {
	return len(states) == 0 || slices.Contains(states, j.State)
}
