//go:build go1.26

package weirhttp_test

const h2InBubbles = true // see go125_test.go
