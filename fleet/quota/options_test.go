package quota_test

import (
	"context"
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/fleet/quota"
	"github.com/weir-go/weir/limit"
)

// fields returns the names of the fields that err reports.
func fields(err error) (names []string) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			var o *limit.OptionError
			if errors.As(e, &o) {
				names = append(names, o.Field[strings.Index(o.Field, ".")+1:])
			}
		}
	}
	return names
}

func TestLimiterOptions(t *testing.T) {
	m := newModelMeter(0)
	long := strings.Repeat("x", fleet.MaxName+1)
	for _, row := range []struct {
		name   string
		change func(*quota.LimiterOptions)
		want   []string
	}{
		{"sound", func(o *quota.LimiterOptions) {}, nil},
		{"the default burst", func(o *quota.LimiterOptions) { o.Rate.Burst = 0 }, nil},
		{"the longest", func(o *quota.LimiterOptions) {
			o.Rate = fleet.Rate{Permits: 1, Per: 366 * 24 * time.Hour, Burst: 1 << 30}
			o.OnFailure, o.Instances, o.Lease = quota.FailLocalShare, 10_000, time.Minute
		}, nil},
		{"the fastest", func(o *quota.LimiterOptions) {
			o.Rate = fleet.Rate{Permits: 1 << 30, Per: time.Second, Burst: 1 << 30}
		}, nil},
		{"all wrong", func(o *quota.LimiterOptions) {
			*o = quota.LimiterOptions{Terms: quota.Terms{Rate: fleet.Rate{Burst: -1}, Retry: -1, Lease: -1, MaxBatch: -1}, Key: fleet.Key{Namespace: long}}
		}, []string{"Rate.Permits", "Rate.Per", "Rate.Burst", "OnFailure", "Retry", "MaxBatch", "Lease", "Key.Name", "Key.Namespace"}},
		{"no mode", func(o *quota.LimiterOptions) { o.OnFailure = 0 }, []string{"OnFailure"}},
		{"an unknown mode", func(o *quota.LimiterOptions) { o.OnFailure = 4 }, []string{"OnFailure"}},
		{"a share of nothing", func(o *quota.LimiterOptions) { o.OnFailure = quota.FailLocalShare }, []string{"Instances"}},
		{"too long a key", func(o *quota.LimiterOptions) { o.Key.Name = long }, []string{"Key.Name"}},
		{"too fast", func(o *quota.LimiterOptions) { o.Rate = fleet.Rate{Permits: 1 << 30, Per: 1, Burst: 1 << 30} }, []string{"Rate.Burst"}},
		{"a burst of 1", func(o *quota.LimiterOptions) { o.Rate.Burst = 1 }, []string{"Rate.Burst"}},
		{"a lease that is all of the burst", func(o *quota.LimiterOptions) { o.Lease = 2 * time.Second }, []string{"Rate.Burst"}},
		{"a lease that is almost all of it", func(o *quota.LimiterOptions) { o.Lease = 1900 * time.Millisecond }, nil},
		{"too short a lease", func(o *quota.LimiterOptions) { o.Lease = time.Microsecond }, []string{"Lease"}},
	} {
		o := quota.LimiterOptions{Terms: api(), Key: fleet.Key{Name: "api"}}
		row.change(&o)
		l, err := quota.NewLimiter(m, o)
		if got := fields(err); !slices.Equal(got, row.want) || (err == nil) != (row.want == nil) {
			t.Errorf("%s: NewLimiter = %v; want faults of %v", row.name, err, row.want)
		}
		if err == nil {
			l.Close(context.Background())
		}
	}
	_, err := quota.NewLimiter(nil, quota.LimiterOptions{Terms: api()})
	if got := fields(err); !slices.Equal(got, []string{"Meter", "Key.Name"}) {
		t.Errorf("NewLimiter = %v; want faults of the meter and the key", err)
	}
	_, err = quota.NewKeyedLimiter(nil, quota.KeyedLimiterOptions{Namespace: long, Keys: -1})
	if got := fields(err); !slices.Equal(got, []string{"Meter", "Rate.Permits", "Rate.Per", "OnFailure", "Namespace", "Keys"}) {
		t.Errorf("NewKeyedLimiter = %v; want all faults", err)
	}
}

// The Burst that an error requires is enough, and one less is not.
func TestLimiterOptionsSayWhatBurstIsNeeded(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 10_000 {
		o := quota.LimiterOptions{Terms: api(), Key: fleet.Key{Name: "api"}}
		o.Rate = fleet.Rate{Permits: 1 + rng.IntN(1<<rng.IntN(20)), Per: 1 + time.Duration(rng.Int64N(1<<rng.IntN(40))), Burst: 1}
		if rng.IntN(2) == 0 {
			o.Lease = time.Millisecond + time.Duration(rng.IntN(int(time.Second)))
		}
		_, err := quota.NewLimiter(newModelMeter(0), o)
		var fault *limit.OptionError
		if !errors.As(err, &fault) || fault.Field != "LimiterOptions.Rate.Burst" {
			t.Fatalf("NewLimiter(%+v) = %v; want a fault of Burst", o, err)
		}
		need, _ := new(big.Int).SetString(strings.Fields(fault.Bound)[2], 10)
		if need == nil {
			t.Fatalf("%v names no number", err)
		}
		if need.Cmp(big.NewInt(1<<30)) > 0 || need.Cmp(big.NewInt(math.MaxInt32)) > 0 {
			continue // more than the largest Burst
		}
		o.Rate.Burst = int(need.Int64())
		l, err := quota.NewLimiter(newModelMeter(0), o)
		if err != nil {
			t.Fatalf("NewLimiter(%+v) = %v; its error required that burst", o, err)
		}
		l.Close(context.Background())
	}
}

func TestFailureModeString(t *testing.T) {
	for mode, want := range map[quota.FailureMode]string{
		quota.FailOpen: "open", quota.FailClosed: "closed", quota.FailLocalShare: "local share", 0: "failure mode(0)",
	} {
		if got := mode.String(); got != want {
			t.Errorf("String = %q; want %q", got, want)
		}
	}
}

// The Burst that an error requires is positive, however high the rate is.
func TestLimiterOptionsOfTheHighestRate(t *testing.T) {
	o := quota.LimiterOptions{Terms: api(), Key: fleet.Key{Name: "api"}}
	o.Rate, o.Lease = fleet.Rate{Permits: 1 << 30, Per: 1, Burst: 1}, time.Minute
	_, err := quota.NewLimiter(newModelMeter(0), o)
	var fault *limit.OptionError
	if !errors.As(err, &fault) || strings.Contains(fault.Bound, "-") {
		t.Errorf("NewLimiter(%+v) = %v; want a positive bound of Burst", o, err)
	}
}
