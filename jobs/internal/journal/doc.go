// Package journal keeps jobs on a JetStream stream: two messages for each at
// most, the work item and the state. What a job is, and in which order its
// states follow, is not its business; it makes each write depend on what the
// writer has last seen.
//
// A namespace is one stream with the retention of a work queue, so that the
// acknowledgement of a work item removes it. A job's subjects are
//
//	weir.jobs.1.NAMESPACE.QUEUE.ID.w   the work item: what was accepted
//	weir.jobs.1.NAMESPACE.QUEUE.ID.s   the state: the latest only
//
// and the job's revision is the higher sequence of the two. Each write names the
// revision that it follows, and is refused if the job has another one by then.
// So the acceptance of a job is one write, and everything else is derived from
// it.
//
// The number in the names is the version of all this. Programs with different
// versions do not see each other's jobs.
package journal
