package promote

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"time"

	"github.com/weir-go/weir/option"
)

// The defaults of Options.
const (
	DefaultBudget      = time.Second // Options.Budget
	DefaultMaxPromoted = 1024        // Options.MaxPromoted
)

// ErrClosed is returned by Get after Close.
var ErrClosed = errors.New("promote: closed")

// Options configure a Promoter. The zero Options are useful for keys that are strings
// or integers.
type Options[K comparable] struct {
	// Budget is how long Get waits for a result before it promotes the call. Zero:
	// DefaultBudget. Negative: no wait; Get returns what the Guard can serve from
	// memory, and promotes every other call without starting a load for it.
	Budget time.Duration

	// KeyString names a key for the job. It must be injective, like that of
	// weir.Source, of which it usually is a copy: two keys with one name would be one
	// job. A name is a jobs.SubmitOptions.Key. Nil: keys that are strings or
	// integers are their own names; all other types need a KeyString. It must not
	// block.
	KeyString func(K) string

	// Refuse returns the Guard's refusals to the caller: those of its Limiter
	// (limit.ErrLimited), and weir.ErrStuck. Otherwise they are promoted. Use it for
	// limits that are meant for the caller, such as a quota.
	Refuse bool

	// MaxPromoted bounds the number of keys whose unfinished job the Promoter knows,
	// and the number whose load it keeps running; each costs a goroutine. Further
	// calls are still promoted, but a load ends when its last caller has left
	// (weir.Options.AbandonGrace), and the job then loads again. Zero:
	// DefaultMaxPromoted.
	MaxPromoted int
}

// withDefaults returns o with defaults for its zero values, and its faults.
func (o Options[K]) withDefaults() (Options[K], *option.Faults) {
	f := &option.Faults{Package: "promote"}
	if o.Budget == 0 {
		o.Budget = DefaultBudget
	}
	if o.KeyString == nil {
		if o.KeyString = naming[K](); o.KeyString == nil {
			f.Check(false, "Options.KeyString", "nil", fmt.Sprintf("required for keys that are neither strings nor integers, such as %v", reflect.TypeFor[K]()))
		}
	}
	f.Check(o.MaxPromoted >= 0, "Options.MaxPromoted", o.MaxPromoted, "0 (the default) or more")
	if o.MaxPromoted == 0 {
		o.MaxPromoted = DefaultMaxPromoted
	}
	return o, f
}

// naming returns the function that names keys that are strings or integers, the same
// way as weir does for its fleet: it ignores any methods of the type. It returns nil
// if K is of another kind.
func naming[K comparable]() func(K) string {
	switch reflect.TypeFor[K]().Kind() {
	case reflect.String:
		return func(k K) string { return reflect.ValueOf(k).String() }
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return func(k K) string { return strconv.FormatInt(reflect.ValueOf(k).Int(), 10) }
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return func(k K) string { return strconv.FormatUint(reflect.ValueOf(k).Uint(), 10) }
	}
	return nil
}
