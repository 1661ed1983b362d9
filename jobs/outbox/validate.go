package outbox

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/option"
)

var (
	queueForm  = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	schemaForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`)
)

// An OptionError is an invalid field of an options struct.
type OptionError = option.Error

type faults struct{ option.Faults }

func newFaults(prefix string) *faults {
	return &faults{option.Faults{Package: "outbox", Prefix: prefix}}
}

func (f *faults) between(field string, d, least, most time.Duration) {
	f.Check(least <= d && d <= most, field, d, fmt.Sprintf("from %v to %v", least, most))
}

func (f *faults) count(field string, n, least, most int) {
	f.Check(least <= n && n <= most, field, n, fmt.Sprintf("from %d to %d", least, most))
}

func (f *faults) schema(name string) {
	f.Check(name == "" || schemaForm.MatchString(name), "Schema", name, "empty, or 1 to 63 letters, digits and _, the first no digit")
}

func (o QueueOptions) withDefaults() QueueOptions {
	orDefault(&o.MaxInput, jobs.DefaultMaxInput)
	orDefault(&o.NotifyEvery, DefaultNotifyEvery)
	return o
}

func (o QueueOptions) validate(queue string) error {
	f := newFaults("QueueOptions.")
	f.schema(o.Schema)
	f.Check(o.Version >= 0, "Version", o.Version, "0 or more")
	f.count("MaxInput", o.MaxInput, 1, jobs.MaxPayload)
	f.Check(o.NotifyEvery <= maxWait, "NotifyEvery", o.NotifyEvery, fmt.Sprintf("at most %v", maxWait))
	f.Prefix = ""
	f.Check(queueForm.MatchString(queue), "queue", queue, "1 to 64 letters, digits, - and _")
	return f.Err()
}

// validate has a fast path for the zero options, because it is called for each row.
func (o *EnqueueOptions) validate() error {
	if *o == (EnqueueOptions{}) {
		return nil
	}
	f := newFaults("EnqueueOptions.")
	for _, s := range [...]struct{ field, value string }{
		{"ID", o.ID}, {"Serial", o.Serial}, {"Owner", o.Owner}, {"Fingerprint", o.Fingerprint},
	} {
		f.Check(len(s.value) <= jobs.MaxKey, s.field, fmt.Sprintf("%d bytes long", len(s.value)), fmt.Sprintf("at most %d", jobs.MaxKey))
		f.Check(utf8.ValidString(s.value) && !strings.Contains(s.value, "\x00"), s.field, fmt.Sprintf("%q", s.value), "valid UTF-8 without a zero byte")
	}
	f.between("Delay", o.Delay, 0, jobs.MaxDelay)
	f.Check(o.Deadline == 0 || o.Deadline > o.Delay, "Deadline", o.Deadline, fmt.Sprintf("0 (none), or above Delay (%v)", o.Delay))
	return f.Err()
}

func (o RelayOptions) withDefaults() RelayOptions {
	o.Queues = maps.Clone(o.Queues)
	orDefault(&o.Poll, DefaultPoll)
	orDefault(&o.MinPoll, min(DefaultMinPoll, max(o.Poll, 0)))
	orDefault(&o.Batch, DefaultBatch)
	orDefault(&o.MaxBatchBytes, DefaultMaxBatchBytes)
	orDefault(&o.Parallel, DefaultParallel)
	orDefault(&o.Lease, DefaultLease)
	orDefault(&o.UnknownAfter, DefaultUnknownAfter)
	orDefault(&o.MaxTries, DefaultMaxTries)
	return o
}

func (o RelayOptions) validate() error {
	f := newFaults("RelayOptions.")
	f.Check(1 <= len(o.Queues) && len(o.Queues) <= MaxQueues, "Queues", fmt.Sprintf("%d queues", len(o.Queues)), fmt.Sprintf("1 to %d", MaxQueues))
	for _, name := range slices.Sorted(maps.Keys(o.Queues)) {
		f.Check(queueForm.MatchString(name), "Queues", name, "names of 1 to 64 letters, digits, - and _")
	}
	f.between("Poll", o.Poll, 10*time.Millisecond, maxWait)
	f.between("MinPoll", o.MinPoll, time.Millisecond, o.Poll)
	f.count("Batch", o.Batch, 1, MaxBatch)
	f.Check(o.MaxBatchBytes >= 1, "MaxBatchBytes", o.MaxBatchBytes, "at least 1")
	f.count("Parallel", o.Parallel, 1, MaxParallel)
	f.between("Lease", o.Lease, 100*time.Millisecond, maxLease)
	if o.UnknownAfter >= 0 {
		f.between("UnknownAfter", o.UnknownAfter, time.Second, maxWait)
	}
	f.Check(o.MaxTries >= 1, "MaxTries", o.MaxTries, "at least 1")
	return f.Err()
}

func orDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}
