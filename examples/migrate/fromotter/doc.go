// Package fromotter implements a service with cached prices, once with otter's loading
// cache and once with a Guard.
package fromotter
