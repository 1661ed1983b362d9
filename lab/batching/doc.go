// Package batching holds examples of package batch, and of a Guard's batched loads,
// with real drivers. The comment on each example explains it; package inserts measures
// the gains.
//
// The examples take the address of their server from DATABASE_URL or CASSANDRA_HOST.
// They have no Output comments, because go test would then also run them on machines
// without a server; the tests in this folder run and compare them.
package batching
