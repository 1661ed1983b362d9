// Package tally counts what clients received: the responses of each route by the class of
// their status, those that broke off, and those that the client did not wait for.
package tally

import "sync/atomic"

// A Class is what a client received.
type Class uint8

// The classes. Each request is in exactly one of them, once it has ended.
const (
	Switched    Class = iota // another protocol: status 101
	Success                  // a complete response with a status of 200 to 299
	Redirect                 // 300 to 399, such as 304
	ClientError              // 400 to 499
	ServerError              // 500 to 599
	Broken                   // a response that broke off, or none
	Left                     // the client left, or was too slow for the whole response
	classes
)

// Names are the classes in JSON and in labels of metrics.
var Names = [classes]string{"1xx", "2xx", "3xx", "4xx", "5xx", "broken", "left"}

func (c Class) String() string { return Names[min(c, classes-1)] }

// Of returns the class of a complete response with this status.
func Of(status int) Class {
	switch {
	case status < 200:
		return Switched
	case status < 300:
		return Success
	case status < 400:
		return Redirect
	case status < 500:
		return ClientError
	}
	return ServerError
}

// Counts are the responses of a route, by Class.
type Counts [classes]uint64

// Map returns the counts by the names of the classes.
func (c Counts) Map() map[string]uint64 {
	m := make(map[string]uint64, len(c))
	for class, n := range c {
		m[Names[class]] = n
	}
	return m
}

// A Tally counts responses by route. The zero Tally has no routes, and counts everything
// under the empty name, like responses that belong to no route. It is safe for concurrent
// use.
type Tally struct {
	// routes is replaced as a whole, because every request reads it.
	routes atomic.Pointer[map[string]*counters]
	none   counters
}

type counters [classes]atomic.Uint64

// Routes sets the routes. Those that stay keep their counts; the counts of others are
// dropped.
func (t *Tally) Routes(names []string) {
	var was map[string]*counters
	if p := t.routes.Load(); p != nil {
		was = *p
	}
	now := make(map[string]*counters, len(names))
	for _, name := range names {
		if name == "" {
			continue
		}
		if now[name] = was[name]; now[name] == nil {
			now[name] = new(counters)
		}
	}
	t.routes.Store(&now)
}

// Count counts a response of a route. It allocates nothing.
func (t *Tally) Count(route string, c Class) {
	if p := t.routes.Load(); p != nil {
		if n := (*p)[route]; n != nil {
			n[c].Add(1)
			return
		}
	}
	t.none[c].Add(1)
}

// Counts returns the counts of all routes, and under the empty name those that belong to
// no route.
func (t *Tally) Counts() map[string]Counts {
	all := map[string]Counts{"": t.none.read()}
	if p := t.routes.Load(); p != nil {
		for name, n := range *p {
			all[name] = n.read()
		}
	}
	return all
}

func (n *counters) read() (out Counts) {
	for i := range n {
		out[i] = n[i].Load()
	}
	return out
}
