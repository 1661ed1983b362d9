// Package disk reads and repairs the files of an embedded JetStream server without
// running one.
//
// The server repairs what it finds: it cuts a block file at the first record that it
// cannot read, starts without a block file that is missing, and says so in the same
// words after every killed process. So the files are compared with what is known of
// them before the server opens them. Two things are known:
//
//   - Every record has a checksum. [Check] reads all of them.
//   - A [Ledger] lies beside the streams. It lists the messages of jobs that were
//     flushed, in the order of the stream, and the last sequence: the high-water mark.
//     It is written by the flush that the messages themselves wait for.
//
// A message may be missing without damage: the item of a job that is over is removed,
// a state is replaced by a later one, or its time to live has passed. All of these can
// be seen in what is there. Anything else that the ledger has and the stream has not
// is missing.
//
// The form of the files is that of nats-server 2.15, which has no API for it.
// The tests compare it with files of a real server.
package disk
