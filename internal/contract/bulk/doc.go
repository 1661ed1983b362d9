// Package bulk has tests of the contract of a Guard: how single misses are gathered into bulk
// loads, how many keys are loaded, and what loads cost (B, F).
package bulk
