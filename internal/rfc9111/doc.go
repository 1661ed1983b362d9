// Package rfc9111 is what the RFCs say about a shared cache, as functions
// without state and without a clock: RFC 9111 (HTTP caching), RFC 5861 (stale
// content), RFC 9213 (targeted fields), and the parts of RFC 9110 that they lean
// on. What weir adds or tightens (no Set-Cookie is stored, credentials are
// shared by proof only) is in the same functions, and marked.
//
// All decisions are made here, so that storing, sharing with waiting requests,
// and explaining cannot differ.
package rfc9111
