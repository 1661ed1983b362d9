package weir_test

import "time"

const (
	ms  = time.Millisecond
	sec = time.Second
)
