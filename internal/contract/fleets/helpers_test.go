package fleets_test

import "time"

const (
	ms = time.Millisecond
)
