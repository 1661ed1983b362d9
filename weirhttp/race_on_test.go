//go:build race

package weirhttp_test

const raceEnabled = true
