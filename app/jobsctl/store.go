package jobsctl

import (
	"context"
	"strings"

	"github.com/weir-go/weir/jobs"
)

// A storeSource is a Store, in this process or over a connection.
type storeSource struct {
	*jobs.Store
	close func()
}

var _ Source = storeSource{}

// FromStore returns s as a Source, whose Close does nothing.
func FromStore(s *jobs.Store) Source { return storeSource{s, func() {}} }

// List requests one job more than the limit, to detect whether there are more.
func (s storeSource) List(ctx context.Context, q Query) (Page, error) {
	if len(q.ID) == IDLength {
		return s.find(ctx, q)
	}
	limit := q.Limit
	if limit <= 0 {
		limit = DefaultLimit
	}
	ask := jobs.Filter{Queue: q.Queue, States: q.States, Limit: min(limit, MaxLimit) + 1}
	if q.ID != "" {
		ask.Limit = MaxLimit // because jobs without the prefix are filtered out here
	}
	page := Page{Jobs: []jobs.Status{}} // not null in JSON
	if q.Counts {
		ask.States, ask.Limit = nil, MaxLimit // one reading for both
		page.Counts = map[string]int{}
	}
	all, err := s.Store.List(ctx, ask)
	if err != nil {
		return Page{}, err
	}
	for _, j := range all {
		if q.Counts {
			page.Counts[j.State.String()]++
		}
		switch {
		case !strings.HasPrefix(j.ID, q.ID) || !wanted(j, q.States):
		case len(page.Jobs) == limit:
			page.More = true
		default:
			page.Jobs = append(page.Jobs, j)
		}
	}
	return page, nil
}

// find looks up one job by its full id, which needs no list.
func (s storeSource) find(ctx context.Context, q Query) (Page, error) {
	page := Page{Jobs: []jobs.Status{}}
	var j jobs.Status
	var err error
	if q.Queue != "" {
		j, err = s.Store.Status(ctx, q.Queue, q.ID)
	} else {
		j, err = s.Store.Find(ctx, q.ID)
	}
	switch {
	case isNotFound(err):
		return page, nil
	case err != nil:
		return Page{}, err
	case wanted(j, q.States):
		j.Log = nil // as in a list
		page.Jobs = append(page.Jobs, j)
	}
	return page, nil
}

// Do applies v to a job.
func (s storeSource) Do(ctx context.Context, v Verb, queue, id string) error {
	switch v {
	case Retry:
		return s.Store.Retry(ctx, queue, id)
	case Cancel:
		return s.Store.Cancel(ctx, queue, id)
	}
	return s.Store.Drop(ctx, queue, id)
}

func (s storeSource) Close() { s.close() }
