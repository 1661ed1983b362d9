//go:build !race

package limit_test

const raceEnabled = false

// simulatedOf makes tests run all simulations.
const simulatedOf = 1
