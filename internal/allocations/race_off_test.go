//go:build !race

package allocations_test

// raceEnabled tells tests to do less.
const raceEnabled = false
