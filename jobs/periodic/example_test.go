package periodic_test

import (
	"fmt"
	"log"
	"time"

	"github.com/weir-go/weir/jobs/periodic"
)

// A daily tick in the hour that does not exist is at the end of the gap.
func ExampleTicks() {
	ticks, err := periodic.Ticks("30 2 * * *", "Europe/Berlin", time.Date(2027, 3, 27, 0, 0, 0, 0, time.UTC), 3)
	if err != nil {
		log.Fatal(err)
	}
	for _, t := range ticks {
		fmt.Println(t)
	}
	// Output:
	// 2027-03-27 02:30:00 +0100 CET
	// 2027-03-28 03:00:00 +0200 CEST
	// 2027-03-29 02:30:00 +0200 CEST
}
