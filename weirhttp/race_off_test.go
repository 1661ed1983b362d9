//go:build !race

package weirhttp_test

const raceEnabled = false
