// Package journal keeps jobs on a JetStream stream, with at most two messages for
// each: the work item and the state. It does not interpret them or know the order of
// a job's states; it makes each write depend on what the writer has last seen.
//
// A namespace is one stream with the retention of a work queue, so the
// acknowledgement of a work item removes it. A job's subjects are
//
//	weir.jobs.1.NAMESPACE.QUEUE.ID.w   the work item: the accepted job
//	weir.jobs.1.NAMESPACE.QUEUE.ID.s   the state: only the latest
//
// The job's revision is the higher sequence of the two. Each write names the revision
// that it follows, and is refused if the job has a different one by then. So
// accepting a job is one write, and everything else is derived from it.
//
// The number in the names is the version of this layout. Programs with different
// versions do not see each other's jobs.
package journal
