package console

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/plain"
)

// The defaults of Options.
const (
	DefaultInterval = time.Second      // Options.Interval
	DefaultHistory  = 10 * time.Minute // Options.History
)

// The bounds of Options.
const (
	MinInterval = 100 * time.Millisecond // Options.Interval
	MaxPoints   = 3600                   // of a chart: History in Intervals
)

// Options configure a Console.
type Options struct {
	// Title is shown in the page header and the browser tab. Default: "weir".
	Title string
	// Source provides what is shown, such as the result of Guards. It is required.
	Source Source
	// Access decides which requests to accept. The zero Access accepts only
	// connections over loopback. Its Base is needed only if the console is neither
	// below a pattern of an http.ServeMux nor behind http.StripPrefix.
	Access Access
	// ShowKeys shows keys, which can contain private data. Otherwise a key is shown
	// as a digest under a secret of the process.
	ShowKeys bool

	// Roster lists the instances of the fleet; Self is the ID of this one. A nil
	// Roster means that there is no fleet.
	Roster fleet.Roster
	Self   string

	// Purge, Explain, Jobs and Idempotency serve the requests that the pages of these names send,
	// under /purge, /explain, /jobs and /idempotency. Without its handler the console does not have
	// the page. As an exception, a Source that can purge serves the purges if Purge is nil.
	Purge, Explain, Jobs, Idempotency http.Handler

	// Interval is how often the Source is sampled, and History the time span of the
	// charts. A zero Interval means DefaultInterval. A zero History means DefaultHistory,
	// or MaxPoints intervals if that is shorter. Interval is at least MinInterval, and History at most MaxPoints
	// intervals.
	Interval, History time.Duration
	// Logger logs logins and purges. nil means slog.Default.
	Logger *slog.Logger
}

// withDefaults returns o with defaults for its zero values.
func (o Options) withDefaults() Options {
	o.Title = cmp.Or(o.Title, "weir")
	o.Interval = cmp.Or(o.Interval, DefaultInterval)
	if o.History == 0 {
		o.History = min(DefaultHistory, MaxPoints*o.Interval)
	}
	if o.History > 0 {
		o.History = max(o.History, o.Interval)
	}
	o.Logger = plain.Logger(o.Logger)
	if o.Access.Logger == nil {
		o.Access.Logger = o.Logger
	}
	return o
}

// validate returns all faults in o.
func (o Options) validate() error {
	var faults []error
	if o.Source == nil {
		faults = append(faults, errors.New("console: Options.Source is nil; it is required"))
	}
	if o.Interval < MinInterval {
		faults = append(faults, fmt.Errorf("console: Options.Interval is %v; want at least %v", o.Interval, MinInterval))
	}
	if o.History < 0 {
		faults = append(faults, fmt.Errorf("console: Options.History is %v; want 0 (the default) or more", o.History))
	}
	if o.History/max(o.Interval, 1) > MaxPoints {
		faults = append(faults, fmt.Errorf("console: Options.History is %v; want at most %d times Options.Interval, %v", o.History, MaxPoints, MaxPoints*o.Interval))
	}
	if o.Roster != nil && o.Self == "" {
		faults = append(faults, errors.New("console: Options.Self is empty; want the ID of this instance in Options.Roster"))
	}
	return errors.Join(faults...)
}
