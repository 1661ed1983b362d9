// Package disk keeps records in a folder, so that a program finds them again after a
// restart, or after it was killed. The folder belongs to one process at a time. It is
// a cache: a record may be missing at any time, but a record that is returned is
// complete, and was neither removed nor replaced before.
//
// Records are appended to segments, files of a limited size. An index in memory has
// the place of each record. If the folder reaches its bound, the oldest segment is
// removed as a whole. Removals go to a separate log. [Store.Sync] waits until a
// removal is durable: removals that wait together share one flush. Records are not
// flushed, so a crash of the machine can lose the newest ones.
//
// Every record has checksums: one of its head and key, one for each block of its
// body. They are verified each time it is read. A sealed segment has a hint file, a
// copy of its part of the index, so that opening the folder does not read the
// segments.
//
// Decision 0070 has the reasons and the alternatives.
package disk
