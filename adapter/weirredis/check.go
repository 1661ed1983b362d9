package weirredis

import (
	"errors"
	"fmt"
	"time"

	"github.com/weir-go/weir/fleet"
)

// The bounds that every Tier has. Calls outside them send no command.

func checkNamespace(namespace string) error {
	if len(namespace) > fleet.MaxName {
		return fmt.Errorf("weirredis: a namespace of %d bytes; at most %d", len(namespace), fleet.MaxName)
	}
	return nil
}

func checkKey(k fleet.Key) error {
	if len(k.Name) > fleet.MaxName {
		return fmt.Errorf("weirredis: a key of %d bytes; at most %d", len(k.Name), fleet.MaxName)
	}
	return checkNamespace(k.Namespace)
}

func checkLease(d time.Duration) error {
	if d <= 0 || d > fleet.MaxLease {
		return fmt.Errorf("weirredis: a lease of %v; more than 0, at most %v", d, fleet.MaxLease)
	}
	return nil
}

func checkTags(tags []string) error {
	var errs []error
	if len(tags) > fleet.MaxTags {
		errs = append(errs, fmt.Errorf("weirredis: %d tags in one call; at most %d", len(tags), fleet.MaxTags))
	}
	for _, tag := range tags {
		if len(tag) > fleet.MaxName {
			errs = append(errs, fmt.Errorf("weirredis: a tag of %d bytes; at most %d", len(tag), fleet.MaxName))
		}
	}
	return errors.Join(errs...)
}

func checkTake(r fleet.Rate, n int) error {
	if r.Permits < 1 || r.Per <= 0 || r.Burst < 1 {
		return fmt.Errorf("weirredis: a rate of %d permits each %v with a burst of %d; all must be positive", r.Permits, r.Per, r.Burst)
	}
	if n < 1 {
		return fmt.Errorf("weirredis: %d permits; at least 1", n)
	}
	return nil
}
