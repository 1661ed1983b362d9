// Package inserts measures what batching gains for single inserts into PostgreSQL,
// and checks that it loses or duplicates no row.
//
// Several callers insert row after row in four ways. Each sends its next row as soon
// as the last one is acknowledged:
//
//	single  a connection for every caller, a statement for every row
//	pool    the same statement over a pool of connections
//	batch   rows of concurrent callers gathered into one INSERT over that pool
//	copy    rows of concurrent callers gathered into one COPY over that pool
//
// Every order has a unique id, assigned by its creator. After every run the table is
// compared with the results that the callers got: see [Ledger].
//
// # Why no row is duplicated
//
// When the response to an insert is lost, the client does not know whether it was
// committed. A sender may repeat it: the caller, or a [batch.Batcher] that retries
// the items of a failed batch one by one. The second insert must then have no effect
// if the first one was committed. A SELECT before the insert is not enough: the first
// one may still be running, on a server that has not noticed that its client is gone.
// A unique index on a client-generated id is enough: the second insert of the same id
// waits for the first, and then finds its row. So [InsertAll] uses ON CONFLICT (id),
// and returns the row's number, whichever insert wrote it. COPY has no such clause;
// [CopyAll] must not be retried.
package inserts
