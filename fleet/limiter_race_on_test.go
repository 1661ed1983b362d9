//go:build race

package fleet_test

const limiterRace = true
