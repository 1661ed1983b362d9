// Package fromgocache has a service with cached prices, with go-cache and
// singleflight, and with a Guard.
package fromgocache
