//go:build race

package rig

// Race tells tests to do less under the race detector.
const Race = true
