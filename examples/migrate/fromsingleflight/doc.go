// Package fromsingleflight has a service that coalesces queries, with
// golang.org/x/sync/singleflight and with package flight.
package fromsingleflight
