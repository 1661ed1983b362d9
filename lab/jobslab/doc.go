// Package jobslab drives job queues, weir's and others, in the same way: it fills
// them, has the jobs executed, and measures both.
//
// A [System] is one queue. A job is a number and does nothing, so the measurement is
// of the queue. The choice of systems to compare, and the checks, are in package
// scenarios.
package jobslab
