package fleet_test

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-go/weir/fleet"
)

// The first instance gets a lease and loads the value; the second finds it.
func ExampleTier() {
	ctx, key := context.Background(), fleet.Key{Namespace: "books", Name: "42"}
	var tier fleet.Tier = fleet.NewMemory(fleet.MemoryOptions{}) // weirredis.New returns a shared one

	first, _ := tier.Acquire(ctx, key, fleet.Ask{Lease: 3 * time.Second})
	fmt.Println(first.Grant)
	second, _ := tier.Acquire(ctx, key, fleet.Ask{Lease: 3 * time.Second})
	fmt.Println(second.Grant)

	value := &fleet.Entry{Data: []byte("Dune"), Fresh: time.Minute, Keep: time.Hour}
	settled, _ := tier.Settle(ctx, key, first.Fence, fleet.Outcome{Entry: value})
	fmt.Println("settled:", settled)
	second, _ = tier.Acquire(ctx, key, fleet.Ask{Lease: 3 * time.Second})
	fmt.Println(second.Grant, string(second.Entry.Data))
	// Output:
	// granted
	// held
	// settled: true
	// fresh Dune
}
