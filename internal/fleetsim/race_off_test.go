//go:build !race

package fleetsim_test

// raceEnabled tells tests to do less.
const raceEnabled = false
