package flights_test

import "time"

const (
	ms = time.Millisecond
)
