// Package fleetscale computes the load that a fleet in its steady state puts on its
// engine: commands, bytes pushed, and the CPU time of both. It covers more instances
// than one machine can run.
//
// It is arithmetic, not a measurement. Keys are requested by Zipf's law with
// exponent 1, independently of each other, and evenly over the instances and over
// time. Memories are large enough, nothing is invalidated, and no value has tags.
package fleetscale

import (
	"math"
	"time"
)

// A Fleet is a service that runs on several instances.
type Fleet struct {
	Instances int
	Keys      int
	Rate      float64       // Gets per second of each instance
	TTL       time.Duration // of each value; also the MemoryCap
	Value     int           // bytes of a value, with its header
}

// Costs are the engine's CPU time for each operation.
type Costs struct {
	Grant, Settle, Fresh time.Duration // a command, without its pushes
	Push                 time.Duration // each pushed name, per instance
	Value                time.Duration // each value in the same message, per instance
	ValueKB              time.Duration // each 1,000 bytes of it
}

// Measured are the costs on Redis 7.0.15 with weirredis' scripts, one command in
// flight at a time, on one of 2 cores of an AMD EPYC: medians of three runs of 2,500
// commands, with 0, 8 and 64 tracking instances. Concurrent commands cost less,
// because the commands of one iteration of the engine's event loop share reads,
// writes and messages.
var Measured = Costs{
	Grant: 50 * time.Microsecond, Settle: 55 * time.Microsecond, Fresh: 47 * time.Microsecond,
	Push: 4300 * time.Nanosecond, Value: 160 * time.Nanosecond, ValueKB: 510 * time.Nanosecond,
}

// nameBytes is the length of the name with which a push reports a changed key.
const nameBytes = 64

// A Way is what a push carries.
type Way uint8

const (
	Names  Way = iota // only the key's name: an instance fetches the value
	Values            // also the value, to all instances
)

// A Demand is the load per second on the engine, or on all shards together.
type Demand struct {
	Loads    float64
	Commands float64
	Messages float64 // to one instance each
	Bytes    float64 // pushed
	CPU      float64 // seconds
}

// PerGet returns the number of commands per Get.
func (d Demand) PerGet(f Fleet) float64 { return d.Commands / (f.Rate * float64(f.Instances)) }

// Demand returns the load of f.
//
// Let x be the Gets of a key per TTL on one of n instances. The time from one load to
// the next is 1+1/nx of the TTL: the key expires, and the next Get loads it. A load
// takes two commands. Each other instance gets a request for the key before it
// expires with a probability of 1-exp(-x), and then sends one lookup, unless the
// value was pushed to it. Every instance is assumed to hold each key whose values are
// pushed.
func (f Fleet) Demand(c Costs, way Way) (d Demand) {
	n, ttl := float64(f.Instances), f.TTL.Seconds()
	gets := f.Rate * ttl / harmonic(f.Keys)
	name := n * c.Push.Seconds()
	value := n * (c.Value.Seconds() + float64(nameBytes+f.Value)/1000*c.ValueKB.Seconds())
	for k := 1; k <= f.Keys; k++ {
		x := gets / float64(k)
		loads := n * x / (1 + n*x) / ttl
		asks := (n - 1) * -math.Expm1(-x)
		d.Loads += loads
		d.Commands += 2 * loads
		d.Messages += loads * n
		d.Bytes += loads * n * nameBytes
		d.CPU += loads * (c.Grant + c.Settle).Seconds()
		d.CPU += loads * name
		if way == Values {
			d.Bytes += loads * n * float64(nameBytes+f.Value)
			d.CPU += loads * value
			continue
		}
		d.Commands += loads * asks
		d.CPU += loads * asks * c.Fresh.Seconds()
	}
	return d
}

// Busy is the largest share of time that an engine should be busy: it runs scripts on
// one thread, and beyond this share its queue grows.
const Busy = 0.7

// Most returns the largest number of instances, up to limit, for which the given
// number of shards is enough. Keys are spread evenly over the shards, and each
// instance has a connection for pushes to each of them.
func (f Fleet) Most(c Costs, way Way, shards, limit int) int {
	low, high := 0, limit+1
	for high-low > 1 {
		f.Instances = low + (high-low)/2
		if f.Demand(c, way).CPU <= Busy*float64(shards) {
			low = f.Instances
		} else {
			high = f.Instances
		}
	}
	return low
}

// harmonic returns the sum of 1/k up to n.
func harmonic(n int) (sum float64) {
	for k := n; k > 0; k-- {
		sum += 1 / float64(k)
	}
	return sum
}
