//go:build !go1.26

package weirhttp_test

// In Go 1.25 net/http's HTTP/2 keeps channels in a pool of the process, and one
// that was made in a bubble must not be used in the next: the program ends. So
// the tests in bubbles are for HTTP/1.1 only there; Go 1.26 runs them for both.
const h2InBubbles = false
