package weirredis_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/adapter/weirredis"
	"github.com/weir-go/weir/adapter/weirredis/internal/redistest"
	"github.com/weir-go/weir/fleet"
)

func TestOptionsAreChecked(t *testing.T) {
	const good = "127.0.0.1:1"
	tests := []struct {
		o    weirredis.Options
		want []string // all texts that the error must contain
	}{
		{weirredis.Options{}, []string{"Addresses is [], must be at least one"}},
		{weirredis.Options{Addresses: []string{good, good}}, []string{"Addresses is", "unless Cluster or Sentinel is set"}},
		{weirredis.Options{Addresses: []string{"localhost"}}, []string{"Addresses[0] is localhost, must be host:port"}},
		{weirredis.Options{Addresses: []string{":6379"}}, []string{"Addresses[0]"}},
		{weirredis.Options{Addresses: []string{good}, Cluster: true, Sentinel: &weirredis.Sentinel{}}, []string{"Cluster is true", "Sentinel.MasterSet is"}},
		{weirredis.Options{Addresses: []string{good}, Username: "u"}, []string{"Password is nothing"}},
		{weirredis.Options{Addresses: []string{good}, Password: secret, Credentials: func() (string, string, error) { return "", "", nil }}, []string{"Credentials is a function"}},
		{weirredis.Options{Addresses: []string{good}, Prefix: "a{b}"}, []string{"Prefix is a{b}"}},
		{weirredis.Options{Addresses: []string{good}, Prefix: strings.Repeat("a", 65)}, []string{"Prefix is"}},
		{weirredis.Options{Addresses: []string{good}, ClientName: "a b"}, []string{"ClientName is a b"}},
		{
			weirredis.Options{Addresses: []string{good}, PingInterval: time.Millisecond, DialTimeout: -1, Breaker: fleet.BreakerOptions{Deadline: time.Hour}},
			[]string{"PingInterval is 1ms, must be from 10ms to 1m", "DialTimeout is -1ns", "Breaker.Deadline is 1h0m0s, must be at most 1m"},
		},
	}
	for _, test := range tests {
		tier, err := weirredis.New(t.Context(), test.o)
		if err == nil {
			_ = tier.Close(context.Background())
			t.Errorf("New(%+v) = nil; want %q", test.o, test.want)
			continue
		}
		for _, want := range test.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("New = %v; want %q in it", err, want)
			}
		}
		if strings.Contains(err.Error(), secret) {
			t.Errorf("New = %v; want no secret in it", err)
		}
		if got := strings.Count(err.Error(), "weirredis: Options."); got != len(test.want) && !strings.Contains(test.want[0], "Addresses is") {
			t.Errorf("New = %v; want %d faults", err, len(test.want))
		}
	}
}

// Calls outside the bounds of every Tier are rejected before they are sent, and do
// not count as failures of the engine.
func TestBounds(t *testing.T) {
	s := redistest.Start(t, redistest.Redis(t))
	tier := open(t, s)
	long := strings.Repeat("a", fleet.MaxName+1)
	tags := make([]string, fleet.MaxTags+1)
	ctx, k, rate := t.Context(), key("k"), fleet.Rate{Permits: 1, Per: time.Second, Burst: 1}
	s.Do("CONFIG", "RESETSTAT")
	for name, err := range map[string]error{
		"no lease":       second(tier.Acquire(ctx, k, fleet.Ask{})),
		"long lease":     second(tier.Acquire(ctx, k, fleet.Ask{Lease: fleet.MaxLease + 1})),
		"long name":      second(tier.Acquire(ctx, key(long), fleet.Ask{Lease: 1})),
		"long namespace": second(tier.Write(ctx, fleet.Key{Namespace: long}, fleet.Write{})),
		"extend":         second(tier.Extend(ctx, k, 1, 0)),
		"settle":         second(tier.Settle(ctx, key(long), 1, fleet.Outcome{})),
		"many tags":      second(tier.Tags(ctx, "ns", tags)),
		"long tag":       second(tier.InvalidateTags(ctx, "ns", []string{long}, time.Hour)),
		"no permits":     second(tier.Take(ctx, k, rate, 0)),
		"no rate":        second(tier.Take(ctx, k, fleet.Rate{}, 1)),
	} {
		if err == nil || unavailable(err) || !strings.HasPrefix(err.Error(), "weirredis: ") {
			t.Errorf("%s: %v; want an error of this package that is not ErrUnavailable", name, err)
		}
	}
	if n := s.Calls()["evalsha"] + s.Calls()["hmget"]; n != 0 {
		t.Errorf("%d commands; want none", n)
	}
	if a := acquire(t, tier, key(long[1:]), fleet.Ask{Lease: 1}); a.Grant != fleet.GrantLease {
		t.Errorf("Acquire of the longest name for the shortest lease = %v; want granted", a.Grant)
	}
	if _, err := tier.Tags(ctx, "ns", tags[1:]); err != nil {
		t.Errorf("Tags of the most tags = %v", err)
	}
	canceled, cancel := context.WithCancelCause(ctx)
	mine := errors.New("mine")
	cancel(mine)
	if _, err := tier.Acquire(canceled, k, fleet.Ask{Lease: time.Minute}); !errors.Is(err, mine) || unavailable(err) {
		t.Errorf("Acquire with an ended context = %v; want its cause", err)
	}
}
