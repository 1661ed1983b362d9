// Package jobscheck finds out whether jobs are lost, doubled, or run when they
// must not: it submits numbered jobs from several processes, kills and stops
// whatever takes part, and in the end holds what was promised against what
// happened. The command jobs-check runs it for as long as wanted, a test for
// some seconds.
//
// # What runs
//
// Submitters, workers and servers are processes of their own, which this
// program starts from its own executable (see [Main]). What a job does is drawn
// from the seed and its name alone, see planOf: most succeed, some after errors
// of various classes, some never; some are long beyond the lease, delayed, have a
// deadline, share a key or run one at a time. Each process appends what it does
// and sees to one log, a line a write, with the machine's monotonic clock, which
// all processes share.
//
// # What happens to them
//
// At random instants a process is killed and started again, stopped for longer
// than the lease and continued, or told to stop gracefully. With Single the
// server is a process of its own, with Embedded it is in a submitter's, with
// Cluster there are three, whose leader is hit.
//
// # What must hold
//
// A job is known by its name; one with a key can live several times, one after
// another, under the same name. A rule's name begins each complaint.
//
//   - lost: each acknowledged job is there in the end, and finished.
//   - result: a name has one result at most. Its attempt has ended well with it,
//     under the fence that the Status shows. Every waiter got that one.
//   - kept: no worker got an acknowledgement for a second result.
//   - cancel: once Cancel has returned nil, no attempt starts and no result is
//     stored, unless there was a Submit since. An attempt counts as started before
//     the cancel if the Status of the canceled job shows its fence.
//   - told: an attempt that ran when the cancel was acknowledged ends soon after.
//   - over: a job of which Cancel said that it has finished is not canceled in the
//     end, and no attempt starts after.
//   - overlap: two attempts of one name run at the same time for no longer than the
//     lease and a slack, counted from when the later one began, or from when the
//     earlier one's process was continued after a stop.
//   - needless: an attempt that lives and whose process and servers were not
//     disturbed has no other beside it.
//   - fence: no two attempts share a fence; a later attempt of a job has a higher
//     one.
//   - attempts: no attempt is beyond MaxAttempts, but for those handed back, and a name has no more lives by
//     its attempts than Submits can have begun.
//   - key: a name is one ID, and a job that is not over is joined.
//   - joined: what was joined had been submitted.
//   - dead, failed: a dead job has had MaxAttempts attempts. One that has failed had
//     a permanent error, or its deadline passed and it was not started,
//     or only by workers that handed it back.
//   - delay, deadline: no first attempt starts before its delay, or later than its
//     deadline after the acceptance.
//   - refused: what was refused is not run.
//   - serial: jobs of one Serial overlap no more than attempts of one job do.
//   - waiter, error: no call reports that an accepted job is missing, or returns
//     an undocumented error.
//   - level: an acceptance names the durability of the servers.
//   - died: no process ends by itself.
package jobscheck
