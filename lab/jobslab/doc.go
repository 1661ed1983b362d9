// Package jobslab drives queues of jobs, weir's and others, in the same way: it
// fills them, has them worked, and measures both.
//
// A [System] is one queue. A job is a number and does nothing, so that what is
// measured is the queue. Which of them are compared, and what must hold, is the
// business of package scenarios.
package jobslab
