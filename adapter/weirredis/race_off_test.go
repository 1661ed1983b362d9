//go:build !race

package weirredis_test

// slow is how much longer everything may take.
const slow = 1
