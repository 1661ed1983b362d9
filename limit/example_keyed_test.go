package limit_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/limit"
)

// A rate for each tenant, in front of a Guard.
func Example_aRateForEachTenant() {
	tenants, err := limit.NewKeyedRateLimiter(limit.KeyedRateOptions{Name: "tenants", Rate: 100, Per: time.Minute, Burst: 2})
	if err != nil {
		panic(err)
	}
	reports, err := weir.New(func(_ context.Context, id string) (string, error) {
		return "report " + id, nil
	}, weir.Options{TTL: time.Minute})
	if err != nil {
		panic(err)
	}
	get := func(ctx context.Context, tenant, id string) (string, error) {
		if err := tenants.Allow(ctx, tenant); err != nil {
			return "", err
		}
		return reports.Get(ctx, id)
	}

	for _, tenant := range []string{"acme", "acme", "acme", "globex"} {
		report, err := get(context.Background(), tenant, "7")
		fmt.Println(tenant, report, errors.Is(err, limit.ErrLimited))
	}
	// Output:
	// acme report 7 false
	// acme report 7 false
	// acme  true
	// globex report 7 false
}
