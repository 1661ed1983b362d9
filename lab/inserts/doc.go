// Package inserts measures what batching does for single inserts into
// PostgreSQL, and checks that no row is lost or doubled by it.
//
// A number of callers insert one row each, again and again, each row as soon
// as the last one is acknowledged. They do it in four ways:
//
//	single  a connection for every caller, a statement for every row
//	pool    the same statement over a pool of connections
//	batch   rows of concurrent callers gathered into one INSERT over that pool
//	copy    rows of concurrent callers gathered into one COPY over that pool
//
// Every order has an id of its own, which its maker gives it. After every run
// the table is compared with what the callers got: see [Ledger].
//
// # Why nothing is doubled
//
// When the answer to an insert is lost, nobody knows whether it was committed.
// A sender that repeats it, be it the caller or a [batch.Batcher] that retries
// the items of a failed batch one by one, must be sure that the second one does
// nothing if the first did. A look before the insert is not enough: the first
// one may still be running, on a server that has not noticed that its client is
// gone. A unique index on an id that the client made is: the second insert of
// the same id waits for the first, and then finds its row. So [InsertAll] says
// ON CONFLICT (id), and returns the row's number, whichever insert wrote it.
// COPY has no such clause; [CopyAll] is not to be retried.
package inserts
