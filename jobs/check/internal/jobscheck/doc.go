// Package jobscheck checks whether jobs are lost, run twice, or run when they must
// not. It submits numbered jobs from several processes while it kills and stops the
// processes involved. At the end it compares what was promised with what happened.
// The command jobs-check runs it for as long as you want; a test runs it for some
// seconds.
//
// # What runs
//
// Submitters, workers and servers are separate processes, which this program starts
// from its own executable (see [Main]). What a job does is drawn from the seed and
// the job's name alone; see planOf. Most jobs succeed, some after errors of various
// classes, and some never do. Some run far longer than the lease, are delayed, have a
// deadline, share a key, or run one at a time. Each process appends what it does and
// sees to one log, one line per write. Times in the log come from the machine's
// monotonic clock, which all processes share.
//
// # What happens to them
//
// At random instants a process is killed and started again, stopped for longer than
// the lease and continued, or told to stop gracefully. In mode Single the server is a
// separate process, in mode Embedded it runs in a submitter's process, and in mode
// Cluster there are three servers, of which the leader is hit.
//
// # What must hold
//
// A job is identified by its name. One with a key can live several times, one life
// after another, under the same name. Each complaint begins with the name of its
// rule.
//
//   - lost: each acknowledged job still exists at the end, and is finished.
//   - result: a name has at most one result. Its attempt succeeded with it, under the
//     fence that the Status shows. Every waiter got that result.
//   - kept: no worker got an acknowledgement for a second result.
//   - cancel: once Cancel has returned nil, no attempt starts and no result is
//     stored, unless there was a Submit since. An attempt counts as started before
//     the cancel if the Status of the canceled job shows its fence.
//   - told: an attempt that was running when the cancel was acknowledged ends soon
//     after.
//   - over: a job that Cancel reported as finished is not canceled in the end, and no
//     attempt starts after that.
//   - overlap: two attempts of one name run at the same time for no longer than the
//     lease plus a slack. That time counts from the start of the later attempt, or
//     from when the process of the earlier attempt continued after a stop.
//   - needless: while an attempt is running and neither its process nor the servers
//     were disturbed, no second attempt runs beside it.
//   - fence: no two attempts share a fence; a later attempt of a job has a higher
//     one.
//   - attempts: a name has no more than MaxAttempts attempts per life, apart from
//     those handed back. Its attempts show no more lives than its Submits can have
//     begun.
//   - key: a name has one ID, and a Submit joins a job that is not over.
//   - joined: a joined job must have been submitted before.
//   - dead, failed: a dead job has had MaxAttempts attempts. A failed job had a
//     permanent error; or its deadline passed before it was started, or after it was
//     started only by workers that handed it back.
//   - delay, deadline: a first attempt starts neither before its delay has passed nor
//     later than its deadline, counted from acceptance.
//   - refused: a refused job does not run.
//   - serial: jobs with the same Serial overlap no more than attempts of one job do.
//   - waiter, error: no call reports that an accepted job is missing, or returns an
//     undocumented error.
//   - level: an acceptance reports the durability of the servers.
//   - died: no process exits unless the checker ends it.
package jobscheck
