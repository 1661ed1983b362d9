// Package batching is a folder of examples: package batch and a Guard's batched loads
// with real drivers. Each has a comment about what it does; package inserts measures
// the gains.
//
// The examples take the address of their server from DATABASE_URL or CASSANDRA_HOST.
// They have no Output comments, because go test would then also run them on machines
// without a server; the tests in this folder run and compare them.
package batching
