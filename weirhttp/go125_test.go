//go:build !go1.26

package weirhttp_test

// In Go 1.25 net/http's HTTP/2 keeps channels in a pool of the process. A channel
// that was made in one bubble must not be used in the next: the program ends. So with
// Go 1.25 the tests in bubbles run for HTTP/1.1 only; Go 1.26 runs them for both.
const h2InBubbles = false
