package entries_test

import "time"

const (
	ms  = time.Millisecond
	sec = time.Second
)
