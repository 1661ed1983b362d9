package console

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/inspect"
)

const (
	// MaxRows is the maximum number of flights, or of hot keys of a kind, that are
	// shown; see Hot and Detail.
	MaxRows = 100

	defaultHot = 20

	// reuse is how long a response that is expensive to compute is reused: it scans
	// memory or queries an engine.
	reuse = time.Second
	// rosterTimeout bounds a query of the fleet's engine for the instances.
	rosterTimeout = 2 * time.Second
	// maxInstances is the maximum number of instances that are shown.
	maxInstances = 1000
)

// snapshot responds with the current Snapshot.
func (c *Console) snapshot(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, within(c.o.Source.Snapshot()))
}

// A guard is a *weir.Guard. The Console's fields have this type because Guard is generic:
// every package that uses a type with a Guard in it compiles that Guard again.
type guard[K comparable, V any] interface {
	Get(ctx context.Context, key K) (V, error)
	Close(ctx context.Context) error
}

// details caches what the page shows of units: each is gathered at most once per
// reuse interval, for any number of requests.
type details struct {
	guard guard[string, []byte]
}

func newDetails(c *Console) *details {
	load := func(_ context.Context, unit string) ([]byte, error) {
		d, ok := c.o.Source.Detail(unit, MaxRows)
		if all := c.sampler.latest().Units; !ok && unit == Others && len(all) > 0 && all[len(all)-1].Name == Others {
			d, ok = Detail{Unit: all[len(all)-1]}, true
		}
		if !ok {
			return nil, weir.ErrNotFound
		}
		d.Flights = d.Flights[:min(len(d.Flights), MaxRows)]
		for i := range d.Flights {
			d.Flights[i].Name = c.keys.text(d.Flights[i].Key)
		}
		if d.Flights == nil {
			d.Flights = []Flight{}
		}
		if d.Limit != nil {
			l := finite(*d.Limit)
			d.Limit = &l
		}
		return json.Marshal(d)
	}
	return &details{weir.Must(weir.New(load, weir.Options{TTL: reuse, MaxEntries: MaxUnits}))}
}

func (d *details) close() { closeGuard(d.guard) }

// unit responds with a Detail.
func (c *Console) unit(w http.ResponseWriter, r *http.Request) {
	b, err := c.details.guard.Get(r.Context(), r.PathValue("unit"))
	switch {
	case errors.Is(err, weir.ErrNotFound):
		fail(w, http.StatusNotFound, "there is no unit of that name")
	case err != nil:
		fail(w, http.StatusServiceUnavailable, "the unit's details are unavailable: %v", err)
	default:
		answerBytes(w, http.StatusOK, b)
	}
}

// hot responds with the hot keys of a unit.
func (c *Console) hot(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	n := defaultHot
	if text := q.Get("n"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil || n < 1 || n > MaxRows {
			fail(w, http.StatusBadRequest, "n is %q; want a number from 1 to %d", text, MaxRows)
			return
		}
	}
	if !q.Has("unit") {
		answer(w, http.StatusOK, c.hotOfAll(n))
		return
	}
	hot, ok := c.o.Source.HotKeys(q.Get("unit"), n)
	if !ok {
		fail(w, http.StatusNotFound, "there is no unit of that name")
		return
	}
	hot.ByTraffic = hot.ByTraffic[:min(len(hot.ByTraffic), n)]
	hot.ByLoadTime = hot.ByLoadTime[:min(len(hot.ByLoadTime), n)]
	answer(w, http.StatusOK, Hot{
		Enabled:    hot.Window > 0,
		HotKeys:    hot,
		ByTraffic:  c.keys.hot(hot.ByTraffic, hot.Requests),
		ByLoadTime: c.keys.hot(hot.ByLoadTime, hot.LoadTime),
	})
}

// hotOfAll returns the hot keys of all units together. Shares are of all units that count
// hot keys.
func (c *Console) hotOfAll(n int) Hot {
	var all Hot
	for _, u := range c.sampler.latest().Units {
		hot, ok := c.o.Source.HotKeys(u.Name, n)
		if !ok || hot.Window <= 0 {
			continue
		}
		all.Enabled = true
		all.Window = max(all.Window, hot.Window)
		all.Requests += hot.Requests
		all.LoadTime += hot.LoadTime
		for _, list := range []struct {
			to   *[]HotKey
			from []inspect.HotKey
		}{{&all.ByTraffic, hot.ByTraffic}, {&all.ByLoadTime, hot.ByLoadTime}} {
			keys := c.keys.hot(list.from[:min(len(list.from), n)], 0)
			for i := range keys {
				keys[i].Unit = u.Name
			}
			*list.to = append(*list.to, keys...)
		}
	}
	all.ByTraffic = hottest(all.ByTraffic, n, all.Requests)
	all.ByLoadTime = hottest(all.ByLoadTime, n, all.LoadTime)
	return all
}

// hottest returns the first n of keys by rate, with their shares of total.
func hottest(keys []HotKey, n int, total float64) []HotKey {
	slices.SortStableFunc(keys, func(a, b HotKey) int { return cmp.Compare(b.Rate, a.Rate) })
	keys = append([]HotKey{}, keys[:min(len(keys), n)]...) // not null in JSON
	for i := range keys {
		if total > 0 {
			keys[i].Share = min(keys[i].Rate/total, 1)
		}
	}
	return keys
}

// A roster queries the fleet's instances, at most once per reuse interval.
type roster struct {
	guard guard[struct{}, []fleet.Instance]
}

func newRoster(from fleet.Roster) *roster {
	load := func(ctx context.Context, _ struct{}) ([]fleet.Instance, error) { return from.Instances(ctx) }
	return &roster{weir.Must(weir.New(load, weir.Options{TTL: reuse, MaxEntries: 1, LoadTimeout: rosterTimeout}))}
}

func (o *roster) close() { closeGuard(o.guard) }

// fleet responds with a Fleet, even if the engine does not respond.
func (c *Console) fleet(w http.ResponseWriter, r *http.Request) {
	f := Fleet{Self: c.o.Self, Tier: c.sampler.latest().Tier, Instances: []fleet.Instance{}}
	all, err := c.roster.guard.Get(r.Context(), struct{}{})
	if err != nil {
		f.Error = err.Error()
	}
	f.Instances = append(f.Instances, all[:min(len(all), maxInstances)]...)
	answer(w, http.StatusOK, f)
}

// closeGuard closes a Guard without waiting for its loads.
func closeGuard[K comparable, V any](g guard[K, V]) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = g.Close(ctx) // running loads are canceled, and end on their own
}
