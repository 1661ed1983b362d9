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

var poisoned = scenario.Scenario{
	Name:    "poisoned",
	Title:   "The call panics",
	Asks:    "Fifty callers share one call, and it panics. What do they get, does the process survive, and does the next call work?",
	Service: poisonedService,
	Run:     runPoisoned,
}

// The settings of poisoned and hung: with the fault, and once it is fixed.
const (
	withFault = "with the fault"
	afterward = "afterwards"
)

// later is the number of concurrent callers after the fault is fixed.
const later = 10

func runPoisoned(ctx context.Context, l *scenario.Lab) error {
	for _, variant := range []string{unprotected, xsync, xsyncChan, shielded} {
		s, err := l.Serve(ctx, variant, nil)
		if err != nil {
			return err
		}
		if _, err := l.MeasureBy(ctx, s, scenario.Job{Setting: withFault, MayDie: variant != shielded}, func(ctx context.Context) (result.Measurement, error) {
			return poison(ctx, s)
		}); err != nil {
			return err
		}
		if err := mend(ctx, l, s, patience); err != nil {
			return err
		}
		if err := s.Stop(); err != nil {
			return err
		}
	}
	during, after := l.Measurements(shielded, withFault)[0], l.Measurements(shielded, afterward)[0]
	l.Check("weir: each caller gets an error, a 500", during.Statuses[http.StatusInternalServerError] == crowd, "%v", during.Statuses)
	l.Check("weir: one call", during.Source.Calls == 1, "%d calls", during.Source.Calls)
	l.Check("weir: the process survives", during.Values[scenario.ProcessDied] == 0, "%.0f died", during.Values[scenario.ProcessDied])
	l.Check("weir: afterwards all calls succeed", after.Good == later && after.Failures == 0, "%d of %d answered", after.Good, later)
	before := l.Measurements(xsyncChan, afterward)[0]
	l.Row(result.NewRow("answers afterwards, x/sync DoChan → weir", "answers", result.Higher).Here(float64(before.Good), float64(after.Good)))
	l.Note("net/http recovers a panic in a handler and closes the connection: the caller gets no response at all (status 0). " +
		"DoChan panics on a separate goroutine, on purpose, so that the panic cannot be recovered: the process ends, and with it every other request.")
	return nil
}

// poison sends the crowd's requests for the key, and then lets the call continue.
func poison(ctx context.Context, s *scenario.Server) (result.Measurement, error) {
	client := newClient(patience)
	defer client.CloseIdleConnections()
	all := send(crowd, client, s.URL, func(int) context.Context { return ctx })
	if err := gathered(ctx, s); err != nil {
		return result.Measurement{}, err
	}
	// A process that the panic ends may no longer respond to this.
	_, told := s.Control(ctx, "/begin")
	m := tally(fmt.Sprintf("%d callers at once", crowd), all.wait(), time.Since(all.start))
	if m.Statuses[0] == m.Requests {
		giveTime(s)
	}
	if !s.Ended() && told != nil {
		return m, told
	}
	return m, nil
}

// giveTime gives a process whose connections were cut time to end, if it does: it
// first writes the stacks of all its goroutines.
func giveTime(s *scenario.Server) {
	for end := time.Now().Add(time.Second); time.Now().Before(end) && !s.Ended(); {
		time.Sleep(5 * time.Millisecond)
	}
}

// mend fixes the fault and starts some callers again, each with that timeout.
func mend(ctx context.Context, l *scenario.Lab, s *scenario.Server, timeout time.Duration) error {
	dead := s.Ended()
	_, err := l.MeasureBy(ctx, s, scenario.Job{Setting: afterward, MayDie: dead, Warm: dead}, func(ctx context.Context) (result.Measurement, error) {
		if !dead {
			for _, what := range []string{"/heal", "/begin"} {
				if _, err := s.Control(ctx, what); err != nil {
					return result.Measurement{}, err
				}
			}
		}
		client := newClient(timeout)
		defer client.CloseIdleConnections()
		again := send(later, client, s.URL, func(int) context.Context { return ctx })
		replies := again.wait()
		return tally(fmt.Sprintf("%d callers at once", later), replies, time.Since(again.start)), nil
	})
	return err
}

// poisonedService serves a call that waits for begin, and panics until it is
// healed.
func poisonedService(_ context.Context, o scenario.Options) (*scenario.Service, error) {
	f := new(faulty)
	get, err := protect(o.Variant, func(context.Context, string) (string, error) {
		defer f.meter.Begin()()
		begun, healed := f.state()
		<-begun
		if !healed {
			panic("poisoned")
		}
		return "an answer", nil
	}, weir.Options{})
	if err != nil {
		return nil, err
	}
	return f.service(get), nil
}
