// Package scenarios holds the lab's experiments, one file each.
//
// A file begins with the question. Then come the variants of the service, which runs
// in its own process, and the load and the checks. Scenarios from one published text
// share little; what all scenarios share is in package scenario.
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
		grpcStampede,
		modelStampede,
		searchStampede,
		library,
		gatewayHits,
		gatewayPass,
		gatewayStampede,
		gatewayOriginDown,
		gatewayOverload,
		gatewayMemory,
		gatewaySlowClients,
	}
}

// The names of the variants that many scenarios use. A report gives a variant the
// same color everywhere.
const (
	unprotected = "unprotected"
	cacheAlone  = "cache alone" // only a TTL
	xsync       = "x/sync singleflight"
	coalescing  = "weir coalescing" // without a TTL: nothing is stored
	cached      = "weir cached"
	ceiling     = "ceiling" // the same server with a constant response
)
