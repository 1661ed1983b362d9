// Package fromsturdyc has a service with cached prices, one by one and in bulk,
// with sturdyc and with a Guard.
package fromsturdyc
