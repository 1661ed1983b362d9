package weir

import (
	"fmt"
	"math"
	"time"

	"github.com/weir-go/weir/internal/hotkeys"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/option"
)

// An OptionError names one fault in a Guard's Options or Source.
type OptionError = option.Error

// Validate returns all faults of o at once, joined by errors.Join, each an
// *OptionError, or nil. New calls it.
func (o Options) Validate() error {
	c := newChecks()
	c.lifetime("Options.TTL", o.TTL)
	c.share("Options.TTLJitter", o.TTLJitter, 0, 0.5)
	c.Check(o.RefreshAhead >= 0 && o.RefreshAhead <= MaxRefreshAhead, "Options.RefreshAhead", o.RefreshAhead,
		fmt.Sprintf("from 0 to %v: the share of the TTL, counted from its end", MaxRefreshAhead))
	c.Check(o.RefreshJitter <= 0.5, "Options.RefreshJitter", o.RefreshJitter, "at most 0.5")
	c.Check(o.RefreshJitter <= 0 || o.RefreshAhead != 0, "Options.RefreshJitter", o.RefreshJitter, "0 without RefreshAhead")
	c.Check(o.RefreshBeta >= 0 && !math.IsInf(o.RefreshBeta, 1), "Options.RefreshBeta", o.RefreshBeta, "0 (off) or more, and finite")
	c.Check(!(o.RefreshBeta > 0 && o.RefreshAhead > 0), "Options.RefreshBeta", o.RefreshBeta, "0 when RefreshAhead is set")
	c.lifetime("Options.RefreshRetry", o.RefreshRetry)
	least := orDefault(o.RefreshRetry, DefaultRefreshRetry)
	c.Check(o.RefreshRetryMax == 0 || o.RefreshRetryMax >= least, "Options.RefreshRetryMax", o.RefreshRetryMax, fmt.Sprintf("0 (the default) or at least RefreshRetry (%v)", least))
	c.lifetime("Options.StaleWhileRevalidate", o.StaleWhileRevalidate)
	c.lifetime("Options.StaleIfError", o.StaleIfError)
	c.lifetime("Options.NegativeTTL", o.NegativeTTL)
	c.backoff("Options.FailureMemo.Transient", o.FailureMemo.Transient)
	c.backoff("Options.FailureMemo.Permanent", o.FailureMemo.Permanent)
	c.backoff("Options.FailureMemo.Overload", o.FailureMemo.Overload)
	c.lifetime("Options.SoftTimeout", o.SoftTimeout)
	c.Check(o.MaxEntries >= 0, "Options.MaxEntries", o.MaxEntries, "0 (the default) or more")
	c.Check(o.MaxEntries <= 0 || o.MaxWeight == 0, "Options.MaxEntries", o.MaxEntries, "0 when MaxWeight is set")
	c.Check(o.MaxRefreshes >= 0, "Options.MaxRefreshes", o.MaxRefreshes, "0 (the default) or more")
	c.Check(o.MaxStuck >= 0, "Options.MaxStuck", o.MaxStuck, "0 (the default) or more")
	c.Check(o.Batch.MaxSize == 0 || o.Batch.MaxSize >= 2, "Options.Batch.MaxSize", o.Batch.MaxSize, "0 (off) or at least 2")
	if c.duration("Options.Batch.Linger", o.Batch.Linger) {
		c.Check(o.Batch.Linger == 0 || o.Batch.Linger >= leastLinger, "Options.Batch.Linger", o.Batch.Linger, fmt.Sprintf("0 or at least %v", leastLinger))
	}
	c.Check(o.Batch.MaxParallel >= 0, "Options.Batch.MaxParallel", o.Batch.MaxParallel, "0 (the default) or more")
	c.Check(o.HotKeys <= MaxHotKeys, "Options.HotKeys", o.HotKeys, fmt.Sprintf("at most %d", MaxHotKeys))
	c.meant("Options.LoadTimeout", o.LoadTimeout)
	c.meant("Options.MaxRetryAfter", o.MaxRetryAfter)
	if c.meant("Options.AbandonGrace", o.AbandonGrace) && o.LoadTimeout >= 0 {
		hard := orDefault(o.LoadTimeout, DefaultLoadTimeout)
		c.Check(o.AbandonGrace <= hard, "Options.AbandonGrace", o.AbandonGrace, fmt.Sprintf("at most LoadTimeout (%v), which ends the load first, or Never", hard))
	}
	c.Check(!o.ReportEvictions || o.Observer != nil, "Options.ReportEvictions", o.ReportEvictions, "false without an Observer, to which evictions are reported")
	c.Add(limit.Validate("weir", "Options.Limiter", o.Limiter))
	c.Filled("Options.Observer", o.Observer)
	c.fleet(o)
	return c.Err()
}

// validate is Validate for a Source with the Options o.
func (s Source[K, V]) validate(o Options) error {
	c := newChecks()
	const decides = ", which returns what %s does: tags, TTL, windows, weight and version"
	c.Check(s.single() || s.bulk(), "Source", "without a function", "given Load, LoadEntry, LoadMany or LoadEntries")
	c.Check(s.Load == nil || s.LoadEntry == nil, "Source", "given both Load and LoadEntry", "given one of them")
	c.Check(s.LoadMany == nil || s.LoadEntries == nil, "Source", "given both LoadMany and LoadEntries", "given one of them")
	c.Check(s.LoadMany == nil || s.LoadEntry == nil, "Source.LoadMany", "given beside LoadEntry", "LoadEntries instead"+fmt.Sprintf(decides, "LoadEntry"))
	c.Check(s.LoadEntries == nil || s.Load == nil, "Source.Load", "given beside LoadEntries", "LoadEntry instead"+fmt.Sprintf(decides, "LoadEntries"))
	c.Check(o.Batch.MaxSize == 0 || s.bulk() || s.LoadEntry != nil, "Source.LoadMany", "nil", "given with Options.Batch, or LoadEntries")
	c.Check(o.Batch.MaxSize == 0 || s.bulk() || s.LoadEntry == nil, "Source.LoadEntries", "nil", "given with Options.Batch beside LoadEntry")
	c.Check(o.Fleet.Tier == nil || namingOf(s.KeyString).name != nil, "Source.KeyString", "nil", "given with Options.Fleet for keys that are neither strings nor integers")
	c.Check(o.Batch.MaxSize != 0 || s.BatchScope == nil, "Source.BatchScope", "given", "nil without Options.Batch, which is what keeps scopes apart")
	c.Check(s.Weigh == nil || o.MaxWeight > 0, "Source.Weigh", "given", "nil without Options.MaxWeight, which counts weights")
	c.Check(o.MaxWeight == 0 || s.Weigh != nil || s.LoadEntry != nil || s.LoadEntries != nil, "Source.Weigh", "nil", "given with Options.MaxWeight, or LoadEntry or LoadEntries, which weigh an Entry: each value would weigh 1")
	return c.Err()
}

// checks collects faults.
type checks struct{ option.Faults }

func newChecks() *checks { return &checks{option.Faults{Package: "weir"}} }

func (c *checks) duration(field string, d time.Duration) bool {
	return c.Check(d >= 0, field, d, "0 or more")
}

// leastTime is the shortest time that an option can mean; leastLinger is that of a Linger. A
// shorter one is a number without a unit.
const (
	leastTime   = time.Millisecond
	leastLinger = time.Microsecond
)

// meant checks that d, if it is positive, has a unit.
func (c *checks) meant(field string, d time.Duration) bool {
	return c.Check(d <= 0 || d >= leastTime, field, d, fmt.Sprintf("0 or at least %v: a number needs a unit, as in 60 * time.Second", leastTime))
}

// lifetime checks that d is not negative, and has a unit.
func (c *checks) lifetime(field string, d time.Duration) {
	if c.duration(field, d) {
		c.meant(field, d)
	}
}

func (c *checks) share(field string, v, least, most float64) {
	c.Check(v >= least && v <= most, field, v, fmt.Sprintf("from %v to %v", least, most))
}

func (c *checks) backoff(field string, b Backoff) {
	c.lifetime(field+".Initial", b.Initial)
	c.lifetime(field+".Max", b.Max)
	c.Check(b.Max <= 0 || b.Initial != 0, field+".Max", b.Max, "0 without Initial, from which it grows")
	c.Check(b.Max == 0 || b.Max >= b.Initial, field+".Max", b.Max, fmt.Sprintf("0 or at least Initial (%v)", b.Initial))
}

// Advice returns one sentence for each set of options that is allowed but
// contradictory. Programs can log it when they start.
func (o Options) Advice() []string {
	d := o.withDefaults()
	var advice []string
	when := func(cond bool, format string, args ...any) {
		if cond {
			advice = append(advice, fmt.Sprintf(format, args...))
		}
	}
	keeps := o.TTL > 0
	when(!keeps && o.NegativeTTL == 0 && o.RefreshAhead > 0, "RefreshAhead (%v) has no effect without a TTL", o.RefreshAhead)
	when(!keeps && o.NegativeTTL == 0 && o.RefreshBeta > 0, "RefreshBeta (%v) has no effect without a TTL", o.RefreshBeta)
	when(!keeps && o.StaleWhileRevalidate > 0, "StaleWhileRevalidate (%v) has no effect without a TTL", o.StaleWhileRevalidate)
	when(!keeps && o.StaleIfError > 0, "StaleIfError (%v) has no effect without a TTL", o.StaleIfError)
	when(!keeps && o.TTLJitter > 0, "TTLJitter (%v) has no effect without a TTL", o.TTLJitter)
	when(o.SoftTimeout > 0 && o.StaleIfError <= o.StaleWhileRevalidate, // within the latter nobody waits
		"SoftTimeout (%v) has no effect without StaleIfError: there is no stale value to serve", o.SoftTimeout)
	when(o.SoftTimeout > 0 && d.LoadTimeout > 0 && o.SoftTimeout >= d.LoadTimeout,
		"SoftTimeout (%v) is not below LoadTimeout (%v), which ends the load first", o.SoftTimeout, d.LoadTimeout)
	when(keeps && d.LoadTimeout > o.TTL && o.LoadTimeout != 0,
		"LoadTimeout (%v) is above the TTL (%v): a load may take longer than its value lives", o.LoadTimeout, o.TTL)
	when(o.Batch.MaxSize == 0 && (o.Batch.Linger > 0 || o.Batch.MaxParallel > 0),
		"Batch.Linger and Batch.MaxParallel have no effect without Batch.MaxSize")
	when(o.Batch.MaxSize > 0 && o.SoftTimeout > 0 && o.Batch.Linger >= o.SoftTimeout,
		"Batch.Linger (%v) is not below SoftTimeout (%v), which counts from the miss", o.Batch.Linger, o.SoftTimeout)
	when(o.LoadTimeout < 0, "LoadTimeout is off: a load that hangs keeps its key until its callers have left")
	when(o.StaleIfError > 0 && o.StaleIfError < o.StaleWhileRevalidate,
		"StaleIfError (%v) is below StaleWhileRevalidate (%v) and has no effect", o.StaleIfError, o.StaleWhileRevalidate)
	when(keeps && o.NegativeTTL > o.TTL, "NegativeTTL (%v) is above the TTL (%v): missing keys are kept longer than values", o.NegativeTTL, o.TTL)
	when(keeps && (o.RefreshAhead > 0 || o.RefreshBeta > 0 || o.StaleWhileRevalidate > 0) && d.RefreshRetry-o.TTL > o.StaleWhileRevalidate, // the sum of the two may not fit
		"RefreshRetry (%v) is above the time in which a value is refreshed (%v): a failed refresh is not tried again", d.RefreshRetry, o.TTL+o.StaleWhileRevalidate)
	when(keeps && o.MaxWeight == 0 && o.HotKeys*hotkeys.Kept > d.MaxEntries,
		"HotKeys (%v) may keep %v keys alive, more than MaxEntries (%v) in memory", o.HotKeys, o.HotKeys*hotkeys.Kept, d.MaxEntries)
	return advice
}
