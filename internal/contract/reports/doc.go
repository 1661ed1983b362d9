// Package reports has tests of the contract of a Guard: what its results, statistics, events,
// logs and listings report (O).
package reports
