//go:build race

package allocations_test

const raceEnabled = true
