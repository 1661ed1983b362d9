// Package fromsturdyc implements a service with cached prices, one by one and in bulk,
// once with sturdyc and once with a Guard.
package fromsturdyc
