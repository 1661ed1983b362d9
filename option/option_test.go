package option_test

import (
	"errors"
	"testing"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/batch"
	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/fleet/quota"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/option"
	"github.com/weir-go/weir/weirhttp"
)

func TestFaultsAreReportedTogether(t *testing.T) {
	f := option.Faults{Package: "weir", Prefix: "Options."}
	if f.Add(nil); f.Err() != nil {
		t.Errorf("Err = %v without a fault; want nil", f.Err())
	}
	f.Check(true, "TTL", 1, "0 or more")
	f.Check(false, "TTL", -1, "0 or more")
	f.Add(errors.New("another"))
	f.Check(false, "MaxStuck", -2, "1 or more")
	want := "weir: Options.TTL is -1, must be 0 or more\nanother\nweir: Options.MaxStuck is -2, must be 1 or more"
	if err := f.Err(); err == nil || err.Error() != want {
		t.Errorf("Err = %v; want %s", err, want)
	}
}

func TestFaultsOfAnEmbeddedStruct(t *testing.T) {
	inner := option.Faults{Package: "fleet", Prefix: "Config."}
	inner.Check(false, "Lease", 1, "2")
	inner.Add(errors.New("another"))
	f := option.Faults{Package: "weir"}
	f.Adopt("Options.Fleet.", "Config.", nil)
	f.Adopt("Options.Fleet.", "Config.", inner.Err())
	want := "weir: Options.Fleet.Lease is 1, must be 2\nanother"
	if err := f.Err(); err == nil || err.Error() != want {
		t.Errorf("Err = %v; want %s", err, want)
	}
}

// TestOneOptionErrorForAllPackages checks that errors.As with one package's OptionError
// finds the faults of every package.
func TestOneOptionErrorForAllPackages(t *testing.T) {
	_, rate := limit.NewRateLimiter(limit.RateOptions{})
	_, shared := quota.NewLimiter(nil, quota.LimiterOptions{})
	_, batcher := batch.NewFrom(batch.Source[int, int]{}, batch.Options{})
	_, clients := weirhttp.NewClientLimiter(weirhttp.ClientLimiterOptions{})
	for pkg, err := range map[string]error{
		"weir":     weir.Options{TTL: -1}.Validate(),
		"limit":    rate,
		"fleet":    fleet.Config{Lease: -1}.Validate(),
		"quota":    shared,
		"batch":    batcher,
		"weirhttp": clients,
	} {
		var fault *weir.OptionError
		if !errors.As(err, &fault) || fault.Package != pkg {
			t.Errorf("%s: %v; want a *weir.OptionError of that package", pkg, err)
		}
	}
}
