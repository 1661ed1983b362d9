// Package fromsingleflight implements a service that coalesces queries, once with
// golang.org/x/sync/singleflight and once with package flight.
package fromsingleflight
