package loads_test

import "time"

const (
	ms = time.Millisecond
)
