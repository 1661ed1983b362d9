package bulk_test

import "time"

const (
	ms = time.Millisecond
)
