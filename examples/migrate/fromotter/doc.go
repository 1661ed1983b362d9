// Package fromotter has a service with cached prices, with otter's loading
// cache and with a Guard.
package fromotter
