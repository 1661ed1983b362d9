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
	DefaultBudget      = time.Second
	DefaultMaxPromoted = 1024
)

// ErrClosed is returned by Get after Close.
var ErrClosed = errors.New("promote: closed")

// Options of a Promoter. The zero Options are useful for keys that are strings
// or integers.
type Options[K comparable] struct {
	// Budget is how long Get waits for an answer before it promotes. Zero:
	// DefaultBudget. Negative: not at all; what memory may serve is the answer,
	// and anything else a job, whose load no caller begins.
	Budget time.Duration

	// KeyString names a key, for the job. It must be injective, as that of
	// weir.Source, of which it usually is a copy: two keys with one name would
	// be one job. A name is of at most jobs.MaxKey bytes. Nil: keys that are
	// strings or integers name themselves, others have none. It must not block.
	KeyString func(K) string

	// Refuse returns refusals by the Guard to the caller: its Limiter's
	// (limit.ErrLimited), and weir.ErrStuck. Otherwise they are promoted. It is
	// for limits that are meant for the caller, as a quota is.
	Refuse bool

	// MaxPromoted bounds of how many keys the Promoter knows the unfinished job,
	// and of how many it keeps the load going; each costs a goroutine. Beyond it
	// each call submits for itself, which joins, and a load ends when its last
	// caller has left (weir.Options.AbandonGrace); the job then loads again.
	// Zero: DefaultMaxPromoted.
	MaxPromoted int
}

// withDefaults returns o with its zero values replaced, and its faults.
func (o Options[K]) withDefaults() (Options[K], *option.Faults) {
	f := &option.Faults{Package: "promote"}
	if o.Budget == 0 {
		o.Budget = DefaultBudget
	}
	if o.KeyString == nil {
		if o.KeyString = naming[K](); o.KeyString == nil {
			f.Check(false, "Options.KeyString", "nil", fmt.Sprintf("given for keys that are neither strings nor integers, as %v", reflect.TypeFor[K]()))
		}
	}
	f.Check(o.MaxPromoted >= 0, "Options.MaxPromoted", o.MaxPromoted, "0 (the default) or more")
	if o.MaxPromoted == 0 {
		o.MaxPromoted = DefaultMaxPromoted
	}
	return o, f
}

// naming returns the names of keys that are strings or integers, as weir has
// them for its fleet: whatever methods the type has play no part. Nil: K is of
// another kind.
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
