//go:build !race

package weir_test

// raceEnabled tells tests to do less.
const raceEnabled = false
