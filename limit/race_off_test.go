//go:build !race

package limit_test

// simulatedOf makes tests run all simulations.
const simulatedOf = 1
