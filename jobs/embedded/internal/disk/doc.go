// Package disk reads and repairs the files of an embedded JetStream server without
// running it.
//
// The server repairs what it finds: it cuts a block file at the first record that it
// cannot read, and starts without a missing block file. It logs the same words for
// that as after every killed process. So this package compares the files with what is
// known about them before the server opens them. Two things are known:
//
//   - Every record has a checksum. [Check] verifies all of them.
//   - A [Ledger] lies beside the streams. It lists the messages of jobs that were
//     flushed, in stream order, and the last sequence: the high-water mark. The flush
//     that the messages themselves wait for also writes the ledger.
//
// A message may be missing without damage: the item of a finished job is removed, a
// newer state replaces an older one, and a message's time to live passes. All of
// these can be seen in what is left. Any other message that is in the ledger but not
// in the stream is missing.
//
// The file format is that of nats-server 2.15, which has no API for it. The tests
// compare it with files of a real server.
package disk
