// Package fleetlab has the building blocks of the lab's fleet experiments: a [Source]
// whose values have versions, an [Instance] of a service with a Guard in front of the
// source, and a [Checker] that checks how old answers are.
//
// Instances share a tier on a real engine. The experiments, and the handling of the
// processes, are in package scenarios.
package fleetlab
