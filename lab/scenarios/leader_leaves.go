package scenarios

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/lab/result"
	"github.com/weir-go/weir/lab/scenario"
)

var leaderLeaves = scenario.Scenario{
	Name:    "leader-leaves",
	Title:   "The first caller hangs up",
	Asks:    "Fifty callers share one call, and the first of them hangs up while it runs. Do the others get their result? And if all of them hang up, does the call still run?",
	Service: leaderService,
	Run:     runLeader,
}

// The settings of leader-leaves.
const (
	firstLeaves = "the first leaves"
	allLeave    = "all leave"
)

func runLeader(ctx context.Context, l *scenario.Lab) error {
	rest := scenario.Size(l, time.Second, 20*time.Millisecond)
	for _, variant := range []string{unprotected, xsync, xsyncChan, shielded} {
		s, err := l.Serve(ctx, variant, rest)
		if err != nil {
			return err
		}
		for _, e := range []struct {
			setting string
			leaving int
		}{{firstLeaves, 1}, {allLeave, crowd}} {
			if _, err := l.MeasureBy(ctx, s, scenario.Job{Setting: e.setting}, func(ctx context.Context) (result.Measurement, error) {
				return leave(ctx, s, e.leaving)
			}); err != nil {
				return err
			}
		}
		if err := s.Stop(); err != nil {
			return err
		}
	}
	one, all := l.Measurements(shielded, firstLeaves)[0], l.Measurements(shielded, allLeave)[0]
	l.Check("weir, the first leaves: all others get their result", one.Good == crowd-1 && one.Failures == 0, "%d of %d", one.Good, crowd-1)
	l.Check("weir, the first leaves: one call", one.Source.Calls == 1, "%d calls", one.Source.Calls)
	l.Check("weir, the first leaves: the call continues", one.Values[callsCanceled] == 0, "%.0f canceled", one.Values[callsCanceled])
	l.Check("weir, all leave: the call is canceled", all.Source.Calls == 1 && all.Values[callsCanceled] == 1,
		"%d calls, %.0f canceled", all.Source.Calls, all.Values[callsCanceled])
	before := l.Measurements(xsync, firstLeaves)[0]
	l.Row(result.NewRow(fmt.Sprintf("answers to the other %d callers, x/sync singleflight → weir", crowd-1), "answers", result.Higher).
		Here(float64(before.Good), float64(one.Good)))
	l.Note("singleflight.Do runs the function it is given: here, as is common, with the context of the first caller. " +
		"DoChan with a context independent of all callers serves the others, but its call cannot be canceled when all have left.")
	return nil
}

// leave starts callers for the key, one before the others. When all are waiting, the
// first leaving of them leave. The others are measured.
func leave(ctx context.Context, s *scenario.Server, leaving int) (result.Measurement, error) {
	client := newClient(patience)
	defer client.CloseIdleConnections()
	leavers, hangUp := context.WithCancel(ctx)
	defer hangUp()
	ctxOf := func(place int) context.Context {
		if place < leaving {
			return leavers
		}
		return ctx
	}
	leader := send(1, client, s.URL, func(int) context.Context { return leavers })
	if err := until(ctx, s, "/running", is(1)); err != nil {
		return result.Measurement{}, err
	}
	others := send(crowd-1, client, s.URL, func(i int) context.Context { return ctxOf(i + 1) })
	if err := gathered(ctx, s); err != nil {
		return result.Measurement{}, err
	}
	hangUp()
	// By now a call that should be canceled has been canceled; any other continues.
	if err := until(ctx, s, "/inside", atMost(crowd-leaving)); err != nil {
		return result.Measurement{}, err
	}
	if _, err := s.Control(ctx, "/begin"); err != nil {
		return result.Measurement{}, err
	}
	leader.wait()
	replies := others.wait()
	if err := until(ctx, s, "/running", is(0)); err != nil {
		return result.Measurement{}, err
	}
	return tally(fmt.Sprintf("%d callers at once, %d of them hang up", crowd, leaving), replies[leaving-1:], time.Since(others.start)), nil
}

// leaderService serves a call that waits for begin, takes a little longer, and ends
// as soon as its context does.
func leaderService(_ context.Context, o scenario.Options) (*scenario.Service, error) {
	var rest time.Duration
	if err := o.Decode(&rest); err != nil {
		return nil, err
	}
	f := new(faulty)
	get, err := protect(o.Variant, func(ctx context.Context, _ string) (string, error) {
		defer f.meter.Begin()()
		begun, _ := f.state()
		select {
		case <-begun:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			f.canceled()
			return "", context.Cause(ctx)
		}
		time.Sleep(rest)
		return "an answer", nil
	}, weir.Options{})
	if err != nil {
		return nil, err
	}
	return f.service(get), nil
}
