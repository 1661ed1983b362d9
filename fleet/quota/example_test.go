package quota_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/fleet/quota"
	"github.com/weir-go/weir/limit"
)

// A counter stands in for the engine: a service uses the tier that all its instances
// share.
type counter struct {
	mu   sync.Mutex
	used map[fleet.Key]int
	down bool
}

func (c *counter) Take(_ context.Context, k fleet.Key, r fleet.Rate, n int) (fleet.Taken, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down {
		return fleet.Taken{}, &fleet.UnavailableError{Op: "take", Err: errors.New("connection refused")}
	}
	n = min(n, r.Burst-c.used[k])
	c.used[k] += n
	if n == 0 {
		return fleet.Taken{RetryAfter: time.Hour}, nil
	}
	return fleet.Taken{Permits: n}, nil
}

// Two instances share the quota of a paid API: 12 calls at once, and 10 per hour. The
// quota must hold, so all calls are rejected while the engine is unreachable.
func ExampleLimiter() {
	engine := &counter{used: map[fleet.Key]int{}}
	instance := func() *quota.Limiter {
		l, err := quota.NewLimiter(engine, quota.LimiterOptions{
			Key: fleet.Key{Namespace: "limits", Name: "geocoder"},
			Terms: quota.Terms{
				Name:      "geocoder",
				Rate:      fleet.Rate{Permits: 10, Per: time.Hour, Burst: 12},
				OnFailure: quota.FailClosed,
			},
		})
		if err != nil {
			panic(err)
		}
		return l
	}
	a, b := instance(), instance()
	defer a.Close(context.Background())
	defer b.Close(context.Background())

	in := 0
	for range 20 {
		for _, l := range []*quota.Limiter{a, b} {
			if _, err := l.TryAcquire(context.Background()); err == nil {
				in++
			}
		}
	}
	fmt.Println(in, "of 40 were let in; one of the burst is what a lease may take up")

	_, err := a.Acquire(context.Background()) // would wait, but not for an hour
	var refusal *limit.Error
	fmt.Println(errors.As(err, &refusal), refusal.Reason, refusal.RetryAfter > 50*time.Minute)
	// Output:
	// 11 of 40 were let in; one of the burst is what a lease may take up
	// true rate exceeded true
}

// Each client has its own rate, over all instances together. While the engine is
// unreachable, each of four instances applies a quarter of it.
func ExampleKeyedLimiter() {
	engine := &counter{used: map[fleet.Key]int{}}
	clients, err := quota.NewKeyedLimiter(engine, quota.KeyedLimiterOptions{
		Namespace: "clients",
		Terms: quota.Terms{
			Rate:      fleet.Rate{Permits: 4, Per: time.Hour, Burst: 5},
			OnFailure: quota.FailLocalShare, Instances: 4,
		},
	})
	if err != nil {
		panic(err)
	}
	defer clients.Close(context.Background())

	calls := func(client string) (in int) {
		for range 10 {
			if clients.Allow(context.Background(), client) == nil {
				in++
			}
		}
		return in
	}
	fmt.Println(calls("192.0.2.1"), calls("192.0.2.2"))

	engine.mu.Lock()
	engine.down = true
	engine.mu.Unlock()
	fmt.Println(calls("192.0.2.3"), clients.Stats().Outage)
	// Output:
	// 4 4
	// 1 true
}

// Callers can distinguish an outage from a client over its limit: an outage is our
// fault (503), exceeding the limit is the client's (429).
func ExampleOutageError() {
	clients, err := quota.NewKeyedLimiter(&counter{down: true}, quota.KeyedLimiterOptions{
		Terms: quota.Terms{
			Name:      "per-client",
			Rate:      fleet.Rate{Permits: 10, Per: time.Second},
			OnFailure: quota.FailClosed,
			Retry:     time.Minute,
		},
	})
	if err != nil {
		panic(err)
	}
	defer clients.Close(context.Background())

	err = clients.Allow(context.Background(), "192.0.2.1")
	fmt.Println(errors.Is(err, fleet.ErrUnavailable), errors.Is(err, limit.ErrLimited))
	fmt.Println(err)
	// Output:
	// true true
	// quota: "per-client": the limit is unreachable, retry after 200ms: fleet: take: the tier is unavailable: connection refused
}
