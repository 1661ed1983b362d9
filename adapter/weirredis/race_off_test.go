//go:build !race

package weirredis_test

// slow is the factor for all time limits.
const slow = 1
