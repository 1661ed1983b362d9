package fleet_test

import (
	"errors"
	"testing"
	"time"

	"github.com/weir-go/weir/fleet"
)

// Guards, HTTP caches and gateways embed this Config, so its bounds are tested here.
// Their tests check only the names.
func TestConfigFaults(t *testing.T) {
	tier := fleet.NewMemory(fleet.MemoryOptions{})
	for _, tt := range []struct {
		want string // the field; "" for no fault
		c    fleet.Config
	}{
		{"", fleet.Config{}},
		{"", fleet.Config{Tier: tier}},
		{"Config.Tier", fleet.Config{Lease: time.Second}},
		{"Config.Namespace", fleet.Config{Tier: tier, Namespace: string(make([]byte, fleet.MaxName+1))}},
		{"", fleet.Config{Tier: tier, Lease: fleet.MinLease}},
		{"Config.Lease", fleet.Config{Tier: tier, Lease: fleet.MinLease - 1}},
		{"Config.Lease", fleet.Config{Tier: tier, Lease: -1}},
		{"Config.Lease", fleet.Config{Tier: tier, Lease: fleet.MaxLease + 1}},
		{"", fleet.Config{Tier: tier, MemoryCap: fleet.MinMemoryCap}},
		{"Config.MemoryCap", fleet.Config{Tier: tier, MemoryCap: fleet.MinMemoryCap - 1}},
		{"Config.MaxKeep", fleet.Config{Tier: tier, MaxKeep: time.Second - 1}},
		{"", fleet.Config{Tier: tier, Cooling: -1}},
		{"", fleet.Config{Tier: tier, Cooling: -1, MaxCooling: time.Second}},
		{"", fleet.Config{Tier: tier, Cooling: time.Hour}},
		{"Config.Cooling", fleet.Config{Tier: tier, Cooling: time.Hour + 1}},
		{"Config.MaxCooling", fleet.Config{Tier: tier, MaxCooling: fleet.DefaultCooling - 1}},
		{"Config.MaxCooling", fleet.Config{Tier: tier, Cooling: time.Second, MaxCooling: time.Second - 1}},
		{"Config.MaxCooling", fleet.Config{Tier: tier, MaxCooling: 25 * time.Hour}},
	} {
		err := tt.c.Validate()
		var fault *fleet.OptionError
		if errors.As(err, &fault) != (tt.want != "") || fault != nil && fault.Field != tt.want {
			t.Errorf("%+v: Validate = %v; want a fault of %q", tt.c, err, tt.want)
		}
	}
	all := fleet.Config{Tier: tier, Lease: -1, MemoryCap: -1, MaxKeep: -1, Cooling: 2 * time.Hour, MaxCooling: -1, MaxPush: -1, PushMemory: 1}
	if joined, ok := all.Validate().(interface{ Unwrap() []error }); !ok || len(joined.Unwrap()) != 7 {
		t.Errorf("Validate = %v; want all seven faults", all.Validate())
	}
}

func TestConfigDefaults(t *testing.T) {
	tier := fleet.NewMemory(fleet.MemoryOptions{})
	want := fleet.Config{
		Tier: tier, Lease: fleet.DefaultLease, MemoryCap: fleet.DefaultMemoryCap, MaxKeep: fleet.DefaultMaxKeep,
		Cooling: fleet.DefaultCooling, MaxCooling: fleet.DefaultMaxCooling,
		MaxPush: fleet.DefaultMaxPush, PushMemory: fleet.DefaultPushMemory,
	}
	if got := (fleet.Config{Tier: tier}).WithDefaults(); got != want || got.Validate() != nil {
		t.Errorf("WithDefaults = %+v (%v); want %+v, which is valid", got, got.Validate(), want)
	}
	if got := (fleet.Config{}).WithDefaults(); got != (fleet.Config{}) {
		t.Errorf("WithDefaults without a Tier = %+v; want the zero Config", got)
	}
	slow := fleet.Config{Tier: tier, Cooling: time.Minute}.WithDefaults()
	if slow.MaxCooling != time.Minute {
		t.Errorf("MaxCooling = %v; want that of Cooling, %v", slow.MaxCooling, time.Minute)
	}
	if o := slow.Failed(fleet.Failure{Kind: "k"}); o.Cool != time.Minute || o.MaxCool != time.Minute || o.Failure.Kind != "k" {
		t.Errorf("Failed = %+v; want a failure that cools for a minute", o)
	}
	off := fleet.Config{Tier: tier, Cooling: -1}.WithDefaults()
	if o := off.Failed(fleet.Failure{}); o.Cool != 0 || o.MaxCool != 0 {
		t.Errorf("Failed without cooling = %+v; want none", o)
	}
}
