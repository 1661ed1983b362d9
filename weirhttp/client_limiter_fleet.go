package weirhttp

import (
	"cmp"
	"strings"

	"github.com/weir-go/weir/fleet"
)

// keyed returns the limit that the instances share. o has its defaults, or is
// being validated.
func (o ClientLimiterOptions) keyed() (*fleet.KeyedLimiter, error) {
	o = o.withDefaults()
	return fleet.NewKeyedLimiter(o.Fleet.Meter, fleet.KeyedLimiterOptions{
		Terms: fleet.Terms{
			Name:      o.Name,
			Rate:      fleet.Rate{Permits: o.Rate, Per: o.Per, Burst: o.Burst},
			OnFailure: o.Fleet.OnFailure, Instances: o.Fleet.Instances,
		},
		Namespace: cmp.Or(o.Fleet.Namespace, defaultNamespace) + "/client/" + o.Name,
		Keys:      o.Keys,
	})
}

// inClientLimiter is what an option of the limit is called here.
func inClientLimiter(field string) string {
	field = strings.TrimPrefix(field, "KeyedLimiterOptions.")
	switch field {
	case "Rate.Permits":
		return "Rate"
	case "Rate.Per", "Rate.Burst":
		return strings.TrimPrefix(field, "Rate.")
	case "OnFailure", "Instances":
		return "Fleet." + field
	}
	return field
}

// unjoined takes a joined error apart.
func unjoined(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // errors.Join returns it as it is
		return joined.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}
