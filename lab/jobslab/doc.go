// Package jobslab drives job queues, weir's and others, in the same way: it fills
// them, executes their jobs, and measures both.
//
// A [System] is one queue. A job is a number and does nothing, so only the queue is
// measured. Package scenarios chooses the systems to compare, and has the checks.
package jobslab
