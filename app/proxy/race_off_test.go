//go:build !race

package proxy_test

// raced: the race detector is on, and everything takes several times as long.
const raced = false
