//go:build !race

package fleetsim_test

// raceEnabled makes tests do less work.
const raceEnabled = false
