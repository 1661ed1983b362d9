// Package embedded runs the server that keeps jobs, NATS JetStream, inside the
// program.
//
// # What an acknowledged write survives
//
// JetStream acknowledges a write once it is with the operating system, and by
// default flushes its files every two minutes. A killed process loses nothing
// by that; a power cut, or a crash of the kernel, loses up to two minutes of
// what was acknowledged, on one server as on several whose power is cut at the
// same time. Jepsen's report on NATS 2.12.1 (December 2025,
// https://jepsen.io/analyses/nats-2.12.1; nats-server issue 7564) shows it, with
// 14 % of the acknowledged messages gone in one run, and adds that a crash of
// one node's kernel is enough where the others are slow or cut off. So here
//
//   - [jobs.DurabilityDisk]: whatever package jobs acknowledges was flushed before, with
//     one flush for all who wait at a time. It has the Server do so, after the
//     server's own answer. That answer alone, which other programs get that use
//     the server without package jobs, is worth what [jobs.DurabilityProcess] is. (The
//     server's sync_always says the same of its answer, at a flush for each
//     message; with it, a server of your own keeps jobs.DurabilityDisk, too.)
//   - [jobs.DurabilityProcess] flushes every [SyncInterval]. The rest of the promise is the
//     operating system's.
//   - [jobs.DurabilityMajority] needs several servers, which are not embedded.
//
// What neither level survives is a disk that returns other bytes than were
// written, or a file that was cut: the same report (issues 7549 and 7556) has
// damaged files cost acknowledged messages in the middle of a stream, on a
// minority of the servers even. The server leaves out what it cannot read, and cuts
// what follows. So [Start] compares the files with a ledger of what was flushed,
// before the server opens them. Where anything is missing it returns a
// [DamageError] and has changed nothing; [Repair] recovers what there is. Against
// the loss of a disk there are servers with replicas, and backups.
//
// # When the disk is full
//
// A JetStream server whose write has failed once does not write any more, until
// it is started again. A [Server] lets it not come to that: while less than
// Options.MinFree is left on the disk it refuses what is to be kept, with
// JetStream's error 10002, and accepts again when there is room. If a write fails
// all the same, it starts the server within it anew as soon as the disk takes
// writes; connections of [Server.Connect] survive that, as do others that
// reconnect without end.
package embedded
