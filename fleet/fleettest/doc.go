// Package fleettest is the conformance suite of [fleet.Tier]: every engine's Tier
// passes it, and so does the one in memory. [Run] tests each sentence of the
// interface's documentation and each row of the table of failures, as far as the
// engine's [Fixture] can cause the failure. The table in the documentation shows the
// results that it measures.
//
// [Faults] makes a Tier fail like an engine, for tests of code that uses a Tier.
package fleettest
