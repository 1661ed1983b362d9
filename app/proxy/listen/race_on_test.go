//go:build race

package listen_test

// raced: the race detector is on, and allocates.
const raced = true
