// Package scenarios holds the lab's experiments, one file each.
//
// A file begins with the question, goes on with the service in its variants,
// which runs in a process of its own, and ends with the load and what must
// hold. What the scenarios of a published text have in common with each other
// is little; what they share with all is package scenario.
package scenarios

import "github.com/weir-go/weir/lab/scenario"

// All returns the scenarios in the order of the list.
func All() []scenario.Scenario {
	return []scenario.Scenario{
		doOnce,
		coalescePostgres,
		expensiveCall,
		refreshAhead,
		bookByID,
		workerPool,
		scaleOut,
		syncToAsync,
		sqlToNoSQL,
		leaderLeaves,
		poisoned,
		hung,
		sourceDown,
		overload,
		thunderingExpiry,
		zipf,
		fleetScenario,
		fleetCold,
		fleetChaos,
		jobsScenario,
		library,
		gatewayHits,
		gatewayStampede,
		gatewayOriginDown,
		gatewayOverload,
		gatewayMemory,
		gatewaySlowClients,
	}
}

// The names of the variants that many scenarios have. A report gives a variant
// the same colour everywhere.
const (
	unprotected = "unprotected"
	cacheAlone  = "cache alone" // a TTL and nothing else
	xsync       = "x/sync singleflight"
	coalescing  = "weir coalescing" // without a TTL: nothing is kept
	cached      = "weir cached"
	ceiling     = "ceiling" // the same server answering a constant
)
