// Package fleetlab has the parts of the lab's experiments about the fleet: a
// [Source] whose values have versions, an [Instance] of a service that has a
// Guard before it, and a [Checker] that knows how old an answer may be.
//
// Instances share a tier on a real engine. Which experiments there are, and what
// becomes of the processes, is the business of package scenarios.
package fleetlab
