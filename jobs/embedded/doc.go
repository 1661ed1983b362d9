// Package embedded runs the server that keeps jobs, NATS JetStream, inside the
// program.
//
// # What an acknowledged write survives
//
// JetStream acknowledges a write once it has handed it to the operating system. By
// default it flushes its files every two minutes. A killed process therefore loses
// nothing, but a power cut or a kernel crash loses up to two minutes of acknowledged
// writes. Several servers lose them too if their power is cut at the same time.
// Jepsen's report on NATS 2.12.1 (December 2025,
// https://jepsen.io/analyses/nats-2.12.1; nats-server issue 7564) shows this, with 14%
// of the acknowledged messages lost in one run. It adds that a kernel crash on
// one node is enough to lose messages if the other nodes are slow or cut off. So this package does the
// following:
//
//   - [jobs.DurabilityDisk]: everything that package jobs acknowledges was flushed
//     first, with one flush for all callers that wait at the time. Package jobs asks
//     the Server to flush after the server's own acknowledgement. Programs that use
//     the server without package jobs get only that acknowledgement, which is worth
//     [jobs.DurabilityProcess]. (The server's sync_always makes the same promise for
//     its acknowledgement, at one flush per message. With it, a NATS server that you
//     run yourself provides jobs.DurabilityDisk, too.)
//   - [jobs.DurabilityProcess] flushes every [SyncInterval]. Before that, a write
//     survives as long as the operating system does.
//   - [jobs.DurabilityMajority] needs several servers, which are not embedded.
//
// Neither level survives a disk that returns other bytes than were written, or a
// truncated file. In the same report (issues 7549 and 7556), damaged files cost
// acknowledged messages in the middle of a stream, even with damage on a minority of
// the servers only. The server skips what it cannot read, and truncates what follows.
// So [Start] compares the files with a ledger of what was flushed, before the server
// opens them. If anything is missing, it returns a [DamageError] and changes nothing;
// [Repair] recovers what is left. To survive the loss of a disk, use servers with
// replicas, and backups.
//
// # When the disk is full
//
// After one failed write, a JetStream server writes nothing more until it is
// restarted. A [Server] prevents that: while less than Options.MinFree is left on the
// disk, package jobs refuses new jobs, and the rest is for those that were accepted. While
// less than a quarter of MinFree is left, the Server rejects all writes with JetStream's
// error 10002, and accepts them again when there is room. If a write fails all the same, it
// restarts the server within it as soon as the disk accepts writes. Connections from
// [Server.Connect] survive that, as do other connections that reconnect without limit.
//
// # What a start can lose
//
// A JetStream server deletes files that it cannot open or does not expect. So [Start] checks
// first that each folder and file can be used and that nothing foreign is among them. It then
// copies the files, starts the server, and compares what the server has with the files.
// If anything is missing, or the process ends in between, the files are put back as they
// were, and Start fails with a [RecoveryError] or a [StoreError].
package embedded
