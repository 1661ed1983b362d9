// Package fromgocache implements a service with cached prices, once with go-cache and
// singleflight and once with a Guard.
package fromgocache
