// Package rfc9111 implements the RFC rules for a shared cache as functions
// without state and without a clock: RFC 9111 (HTTP caching), RFC 5861 (stale
// content), RFC 9213 (targeted fields), and the parts of RFC 9110 that they rely
// on. Rules that weir adds or tightens (a response with Set-Cookie is never
// stored, credentialed responses are shared only on proof) are in the same
// functions, and marked.
//
// All decisions are made here, so that storing a response, sharing it with
// waiting requests, and explaining the outcome cannot disagree.
package rfc9111
