package reports_test

import "time"

const (
	ms  = time.Millisecond
	sec = time.Second
)
