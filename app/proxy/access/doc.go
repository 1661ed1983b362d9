// Package access writes the access log of the proxy: one line for each request that failed
// or was slow, or for every request.
//
// A request that is not logged costs no allocation: the writer that counts its
// bytes comes from a pool.
package access
