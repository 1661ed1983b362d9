package weirhttp

import (
	"cmp"
	"errors"
	"strings"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/fleet/quota"
	"github.com/weir-go/weir/option"
)

// keyedOptions returns the options of the limiter that the instances share.
func (o ClientLimiterOptions) keyedOptions() quota.KeyedLimiterOptions {
	o = o.withDefaults()
	return quota.KeyedLimiterOptions{
		Terms: quota.Terms{
			Name:      o.Name,
			Rate:      fleet.Rate{Permits: o.Rate, Per: o.Per, Burst: o.Burst},
			OnFailure: o.Fleet.OnFailure, Instances: o.Fleet.Instances,
		},
		Namespace: cmp.Or(o.Fleet.Namespace, defaultNamespace) + "/client/" + o.Name,
		Keys:      o.Keys,
	}
}

// addKeyed adds the faults of keyedOptions to f, under the names that the options
// have here.
func addKeyed(f *option.Faults, err error) {
	for _, err := range unjoined(err) {
		var e *OptionError
		if errors.As(err, &e) {
			f.Check(false, inClientLimiter(e.Field), e.Value, e.Bound)
		} else {
			f.Check(false, "Fleet", "refused", err.Error())
		}
	}
}

// inClientLimiter returns the name here of an option of the shared limiter.
func inClientLimiter(field string) string {
	field = strings.TrimPrefix(field, "KeyedLimiterOptions.")
	switch field {
	case "Rate.Permits":
		return "Rate"
	case "Rate.Per", "Rate.Burst":
		return strings.TrimPrefix(field, "Rate.")
	case "OnFailure", "Instances", "Namespace":
		return "Fleet." + field
	}
	return field
}

// unjoined splits a joined error.
func unjoined(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // errors.Join returns it as it is
		return joined.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}
