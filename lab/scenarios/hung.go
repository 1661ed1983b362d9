package scenarios

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/lab/result"
	"github.com/weir-go/weir/lab/scenario"
)

var hung = scenario.Scenario{
	Name:    "hung",
	Title:   "The call hangs forever",
	Asks:    "Fifty callers share one call, and it never returns, whatever its context says. How long do they wait, and does the key work again once the source has recovered?",
	Service: hungService,
	Run:     runHung,
}

// shieldedStale is weir with a stale value in memory that it may serve.
const shieldedStale = "weir, stale allowed"

// A hungSetup has the timeouts.
type hungSetup struct {
	Client time.Duration // a caller, before it hangs up
	Load   time.Duration // weir's LoadTimeout
	Soft   time.Duration // weir's SoftTimeout, of the variant with a stale value
}

func runHung(ctx context.Context, l *scenario.Lab) error {
	set := scenario.Size(l, hungSetup{3 * time.Second, time.Second, 100 * time.Millisecond},
		hungSetup{700 * time.Millisecond, 200 * time.Millisecond, 50 * time.Millisecond})
	for _, variant := range []string{unprotected, xsync, xsyncChan, shielded, shieldedStale} {
		s, err := l.Serve(ctx, variant, set)
		if err != nil {
			return err
		}
		waits := set.Client
		if l.Small && (variant == shielded || variant == shieldedStale) {
			waits = patience // a slow result on a busy machine is not weir's fault
		}
		if _, err := l.MeasureBy(ctx, s, scenario.Job{Setting: withFault}, func(ctx context.Context) (result.Measurement, error) {
			client := newClient(waits)
			defer client.CloseIdleConnections()
			all := send(crowd, client, s.URL, func(int) context.Context { return ctx })
			replies := all.wait()
			return tally(fmt.Sprintf("%d callers at once, each for %v", crowd, waits), replies, time.Since(all.start)), nil
		}); err != nil {
			return err
		}
		if variant == shieldedStale {
			time.Sleep(set.Load) // until weir abandons the hung load: before that there is only the stale value
		}
		if err := mend(ctx, l, s, waits); err != nil {
			return err
		}
		if err := s.Stop(); err != nil {
			return err
		}
	}
	judgeHung(l, set)
	return nil
}

func judgeHung(l *scenario.Lab, set hungSetup) {
	during, after := l.Measurements(shielded, withFault)[0], l.Measurements(shielded, afterward)[0]
	l.Check("weir: each caller gets a 504 before it disconnects", during.Statuses[http.StatusGatewayTimeout] == crowd, "%v", during.Statuses)
	l.Check("weir: one call hangs", during.Source.Calls == 1 && during.Values[callsRunning] == 1,
		"%d calls, %.0f hang", during.Source.Calls, during.Values[callsRunning])
	l.Check("weir: the key works again", after.Good == later && after.Failures == 0, "%d of %d answered", after.Good, later)
	old := l.Measurements(shieldedStale, withFault)[0]
	l.Check("weir, stale allowed: each caller gets the stale value", old.Good == crowd && old.Failures == 0, "%d of %d", old.Good, crowd)
	again := l.Measurements(shieldedStale, afterward)[0]
	l.Check("weir, stale allowed: the key is loaded again", again.Good == later && again.Source.Calls > 0, "%d of %d answered, %d calls", again.Good, later, again.Source.Calls)
	l.CheckTime("weir, stale allowed: no caller waits much longer than SoftTimeout", slowestMS(old) < 5*ms(set.Soft),
		"%.0f ms at most; SoftTimeout is %v", slowestMS(old), set.Soft)
	before := l.Measurements(xsync, afterward)[0]
	l.Row(result.NewRow("answers afterwards, x/sync singleflight → weir", "answers", result.Higher).Here(float64(before.Good), float64(after.Good)))
	l.Note("The call ignores its context, the worst behavior of a driver. Without coalescing each caller has its own hung call; "+
		"with singleflight all later callers join the hung one for as long as the process lives. Weir abandons a load after LoadTimeout: %v here, 30 s by default.", set.Load)
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// hungService serves a call that never returns until the fault is healed. Calls that
// already hang never return.
func hungService(ctx context.Context, o scenario.Options) (*scenario.Service, error) {
	var set hungSetup
	if err := o.Decode(&set); err != nil {
		return nil, err
	}
	f := new(faulty)
	options := weir.Options{LoadTimeout: set.Load}
	if o.Variant == shieldedStale {
		options.TTL, options.StaleIfError, options.SoftTimeout = time.Millisecond, time.Hour, set.Soft
		f.heal() // for the value that becomes stale
	}
	get, err := protect(o.Variant, func(context.Context, string) (string, error) {
		defer f.meter.Begin()()
		if _, healed := f.state(); !healed {
			select {} // ends with the process
		}
		return "an answer", nil
	}, options)
	if err != nil {
		return nil, err
	}
	if o.Variant == shieldedStale {
		if _, err := get(ctx, theKey); err != nil {
			return nil, err
		}
		time.Sleep(10 * options.TTL)
		f.ail()
	}
	return f.service(get), nil
}
