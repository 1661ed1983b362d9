// Package batching is a folder of examples: package batch and a Guard's batched
// loads with real drivers. Each has a comment about what it does; what they
// gain is measured by package inserts.
//
// The examples take the address of their server from DATABASE_URL or
// CASSANDRA_HOST. They print nothing that go test would compare by itself,
// since it would run them on machines without a server; the tests beside them
// run and compare them.
package batching
