// Package fleettest is the conformance suite of [fleet.Tier]: every engine's
// tier passes it, and the one in memory. [Run] tests each sentence of the
// interface, and each row of the table of failures, as far as the engine's
// [Fixture] can bring the failure about; what it measures is what the
// documentation's table says.
//
// [Faults] makes a tier fail as engines do, for tests of what stands on one.
package fleettest
