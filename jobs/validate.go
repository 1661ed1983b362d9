package jobs

import (
	"fmt"
	"maps"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/option"
)

var (
	namespaceForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,32}$`)
	queueForm     = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
)

// An OptionError is an invalid field of an options struct.
type OptionError = option.Error

type faults struct{ option.Faults }

func newFaults() *faults { return &faults{option.Faults{Package: "jobs"}} }

func (f *faults) between(field string, d, least, most time.Duration) {
	f.Check(least <= d && d <= most, field, d, fmt.Sprintf("from %v to %v", least, most))
}

func (o StoreOptions) withDefaults() StoreOptions {
	orDefault(&o.Namespace, DefaultNamespace)
	orDefault(&o.Replicas, 1)
	if o.Durability == 0 {
		o.Durability = DurabilityProcess
		if o.Replicas > 1 {
			o.Durability = DurabilityMajority
		}
	}
	orDefault(&o.MaxBytes, DefaultMaxBytes)
	orDefault(&o.Timeout, DefaultTimeout)
	return o
}

func (o StoreOptions) validate() error {
	f := newFaults()
	f.Check(namespaceForm.MatchString(o.Namespace), "StoreOptions.Namespace", o.Namespace, "1 to 32 letters, digits, - and _")
	f.Check(o.Replicas == 1 || o.Replicas == 3 || o.Replicas == 5, "StoreOptions.Replicas", o.Replicas, "1, 3 or 5")
	f.Check(o.Durability <= DurabilityMajority, "StoreOptions.Durability", o.Durability, "DurabilityProcess, DurabilityDisk or DurabilityMajority")
	f.Check(o.Durability != DurabilityMajority || o.Replicas > 1, "StoreOptions.Durability", o.Durability, "DurabilityProcess or DurabilityDisk with one replica")
	f.Check(o.MaxBytes >= 1<<20, "StoreOptions.MaxBytes", o.MaxBytes, "at least 1 MiB")
	f.between("StoreOptions.Timeout", o.Timeout, 10*time.Millisecond, time.Minute)
	return f.Err()
}

func (o QueueOptions) withDefaults() QueueOptions {
	orDefault(&o.Lease, DefaultLease)
	orDefault(&o.MaxAttempts, DefaultMaxAttempts)
	orDefault(&o.MaxCrashes, min(DefaultMaxCrashes, max(o.MaxAttempts, 1)))
	orDefault(&o.MaxSnoozes, DefaultMaxSnoozes)
	orDefault(&o.AttemptTimeout, DefaultAttemptTimeout)
	orDefault(&o.RetryInitial, DefaultRetryInitial)
	orDefault(&o.RetryMax, max(DefaultRetryMax, o.RetryInitial))
	orDefault(&o.ResultTTL, DefaultResultTTL)
	orDefault(&o.DeadTTL, DefaultDeadTTL)
	orDefault(&o.MaxQueued, DefaultMaxQueued)
	orDefault(&o.MaxAge, DefaultMaxAge)
	orDefault(&o.MaxInput, DefaultMaxInput)
	orDefault(&o.MaxResult, DefaultMaxResult)
	o.KeyLimits = maps.Clone(o.KeyLimits)
	return o
}

func (o QueueOptions) validate(name string) error {
	f := newFaults()
	f.Check(queueForm.MatchString(name), "queue", name, "1 to 64 letters, digits, - and _")
	f.between("QueueOptions.Lease", o.Lease, 100*time.Millisecond, time.Hour)
	f.Check(1 <= o.MaxAttempts && o.MaxAttempts <= MaxAttempts, "QueueOptions.MaxAttempts", o.MaxAttempts, fmt.Sprintf("from 1 to %d", MaxAttempts))
	f.Check(1 <= o.MaxCrashes && o.MaxCrashes <= max(o.MaxAttempts, 1), "QueueOptions.MaxCrashes", o.MaxCrashes, fmt.Sprintf("from 1 to MaxAttempts (%d)", o.MaxAttempts))
	f.Check(o.MaxSnoozes <= MaxSnoozes, "QueueOptions.MaxSnoozes", o.MaxSnoozes, fmt.Sprintf("at most %d", MaxSnoozes))
	f.between("QueueOptions.RetryInitial", o.RetryInitial, time.Millisecond, MaxDelay)
	f.between("QueueOptions.RetryMax", o.RetryMax, o.RetryInitial, MaxDelay)
	if o.ResultTTL != None {
		f.between("QueueOptions.ResultTTL", o.ResultTTL, time.Second, MaxKeep)
	}
	f.between("QueueOptions.DeadTTL", o.DeadTTL, time.Second, MaxKeep)
	f.Check(o.MaxQueued >= 1, "QueueOptions.MaxQueued", o.MaxQueued, "at least 1")
	f.Check(1 <= o.MaxInput && o.MaxInput <= MaxPayload, "QueueOptions.MaxInput", o.MaxInput, fmt.Sprintf("from 1 to %d", MaxPayload))
	f.Check(1 <= o.MaxResult && o.MaxResult <= MaxPayload, "QueueOptions.MaxResult", o.MaxResult, fmt.Sprintf("from 1 to %d", MaxPayload))
	f.Check(o.Version >= 0, "QueueOptions.Version", o.Version, "0 or more")
	o.KeyLimit.validate(f, "QueueOptions.KeyLimit")
	f.Check(len(o.KeyLimits) <= MaxKeyLimits, "QueueOptions.KeyLimits", fmt.Sprintf("%d keys", len(o.KeyLimits)), fmt.Sprintf("at most %d", MaxKeyLimits))
	for key, l := range o.KeyLimits {
		f.Check(utf8.ValidString(key), "QueueOptions.KeyLimits", fmt.Sprintf("key %.80q", key), "keys of UTF-8, as SubmitOptions.LimitKey")
		l.validate(f, fmt.Sprintf("QueueOptions.KeyLimits[%q]", clip(key)))
	}
	return f.Err()
}

// validate has a fast path for valid options, because it is called for each job.
func (o *SubmitOptions) validate() error {
	if max(len(o.Key), len(o.Serial), len(o.Fingerprint), len(o.Owner), len(o.LimitKey)) <= MaxKey &&
		utf8.ValidString(o.Key) && utf8.ValidString(o.Serial) && utf8.ValidString(o.Fingerprint) &&
		utf8.ValidString(o.Owner) && utf8.ValidString(o.LimitKey) && strings.IndexByte(o.Key, 0) < 0 &&
		0 <= o.Delay && o.Delay <= MaxDelay && (o.Deadline == 0 || o.Deadline > o.Delay) && len(o.Headers) == 0 && validLabel(o.Label) {
		return nil
	}
	f := newFaults()
	for _, s := range [...]struct{ field, value string }{
		{"Key", o.Key}, {"Serial", o.Serial}, {"Fingerprint", o.Fingerprint}, {"Owner", o.Owner}, {"LimitKey", o.LimitKey},
	} {
		f.Check(len(s.value) <= MaxKey, "SubmitOptions."+s.field, fmt.Sprintf("%d bytes long", len(s.value)), fmt.Sprintf("at most %d", MaxKey))
		// They are stored as JSON, which would change other bytes: a changed Fingerprint
		// is a conflict with itself, and a changed LimitKey has no limit.
		f.Check(utf8.ValidString(s.value), "SubmitOptions."+s.field, fmt.Sprintf("%.80q", s.value), "UTF-8")
	}
	// Locks and gates have the IDs of such keys, see idOf.
	f.Check(strings.IndexByte(o.Key, 0) < 0, "SubmitOptions.Key", fmt.Sprintf("%.80q", o.Key), "without a zero byte")
	f.between("SubmitOptions.Delay", o.Delay, 0, MaxDelay)
	f.Check(o.Deadline == 0 || o.Deadline > o.Delay, "SubmitOptions.Deadline", o.Deadline, fmt.Sprintf("0 (none), or above Delay (%v)", o.Delay))
	f.Check(validLabel(o.Label), "SubmitOptions.Label", fmt.Sprintf("%d bytes long", len(o.Label)), fmt.Sprintf("at most %d bytes of UTF-8 without control characters", MaxLabel))
	headers(o.Headers).validate(f)
	return f.Err()
}

func validLabel(s string) bool {
	return len(s) <= MaxLabel && utf8.ValidString(s) && strings.IndexFunc(s, unicode.IsControl) < 0
}

func (o WorkerOptions) validate() error {
	f := newFaults()
	f.Check(1 <= o.Concurrency && o.Concurrency <= 4096, "WorkerOptions.Concurrency", o.Concurrency, "from 1 to 4096")
	for i, m := range o.Middleware {
		f.Check(m != nil, fmt.Sprintf("WorkerOptions.Middleware[%d]", i), "nil", "a function")
	}
	f.Check(len(o.Name) <= MaxKey, "WorkerOptions.Name", fmt.Sprintf("%d bytes long", len(o.Name)), fmt.Sprintf("at most %d", MaxKey))
	f.Check(utf8.ValidString(o.Name), "WorkerOptions.Name", fmt.Sprintf("%.80q", o.Name), "UTF-8")
	f.Add(limit.Validate("jobs", "WorkerOptions.Limiter", o.Limiter))
	return f.Err()
}

func orDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}
