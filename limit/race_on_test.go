//go:build race

package limit_test

// simulatedOf leaves out all but every fifth simulation: with the race detector they take ten times
// as long, and all run the same code.
const simulatedOf = 5
