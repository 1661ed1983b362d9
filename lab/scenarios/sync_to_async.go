package scenarios

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/weir-go/weir/lab/load"
	"github.com/weir-go/weir/lab/result"
	"github.com/weir-go/weir/lab/scenario"
)

var syncToAsync = scenario.Scenario{
	Name:  "sync-to-async",
	Title: "From synchronous to asynchronous: the synchronous half",
	Asks:  "A handler calls a second service that takes longer than itself. What does waiting for it cost, and how much could a queue between them give back?",
	Published: &result.Published{
		Title: "highload-patterns: sync to async",
		Setup: "A handler that is bound by its CPU, then a call to a second service, against an event on a queue that the second service reads; wrk with 1 and with 3 connections, each for 5 s.",
		FromSource: append([]string{
			"The second service does the same with texts of 50 letters, and is held to the same share.",
		}, fromSource...),
	},
	Needs:   []string{"wrk"},
	Service: syncService,
	Run:     runSync,
}

// secondService is the one that is called. The others are the first, which
// calls it or, as the ceiling, does not.
const secondService = "second service"

func runSync(ctx context.Context, l *scenario.Lab) error {
	second, _, err := serveHeld(ctx, l, secondService, "")
	if err != nil {
		return err
	}
	calls, held, err := serveHeld(ctx, l, unprotected, second.URL)
	if err != nil {
		return err
	}
	alone, _, err := serveHeld(ctx, l, ceiling, "")
	if err != nil {
		return err
	}
	turn := []*scenario.Server{calls, alone}
	beside := map[*scenario.Server][]*scenario.Server{calls: {second}}
	rounds := scenario.Size(l, 3, 1)
	for round := 1; round <= rounds; round++ {
		for _, clients := range []int{1, 3} {
			for i := range turn {
				s := turn[(i+round)%len(turn)] // nobody is always first
				_, err := l.Wrk(ctx, s, clients, scenario.Size(l, 5*time.Second, time.Second), scenario.Job{
					Load:    load.Spec{URLs: []string{"/handle"}},
					Setting: onConnections(clients),
					Round:   round,
					Beside:  beside[s],
				})
				if err != nil {
					return err
				}
			}
		}
	}
	judgeSync(l, held)
	return nil
}

func judgeSync(l *scenario.Lab, held bool) {
	all := medianRounds(l, unprotected, ceiling)
	for _, at := range []struct {
		clients       int
		before, after float64 // published
	}{{1, 56.35, 120.80}, {3, 28.53, 87.66}} {
		setting := onConnections(at.clients)
		waits, alone := medianRound(all, unprotected, setting), medianRound(all, ceiling, setting)
		l.Check("synchronous, "+setting+": each request is a call of the second service", waits.Source.Calls >= waits.Good, "%d calls, %d answers", waits.Source.Calls, waits.Good)
		r := result.NewRow("requests/s, "+setting, "requests/s", result.Higher).Published(at.before, at.after).Under(alone.PerSecond).
			Noted("synchronous only; the queue comes with weir's jobs. The ceiling is the handler that does not call the second service.")
		r.Before = &waits.PerSecond
		l.Row(r)
		if held {
			noteShare(l, alone)
			gain := result.Ratio(l.Rates(ceiling, setting), l.Rates(unprotected, setting))
			l.CheckTime("waiting for the second service costs throughput, "+setting, gain.Median > 1, "without it %v times as much", gain)
		}
	}
	l.Table(usedTable("What a request costs, in both services", all))
	l.Note("Only the synchronous half is measured. The second service's work does not go away with a queue: it is done later, at its own speed, and a queue that is filled faster than that grows.")
}

func syncService(_ context.Context, o scenario.Options) (*scenario.Service, error) {
	var second string
	if err := o.Decode(&second); err != nil {
		return nil, err
	}
	meter := new(scenario.Meter)
	handle := func(context.Context) ([]byte, error) { return encodeMany(shortText) }
	switch o.Variant {
	case secondService:
		handle = func(context.Context) ([]byte, error) {
			defer meter.Begin()()
			return encodeMany(longText)
		}
	case unprotected:
		handle = func(ctx context.Context) ([]byte, error) {
			if _, err := encodeMany(shortText); err != nil {
				return nil, err
			}
			return callSecond(ctx, second)
		}
	}
	s := &scenario.Service{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := handle(r.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		w.Write(b) //nolint:errcheck // the client is gone
	})}
	if o.Variant == secondService {
		s.Meter = meter
	}
	return s, nil
}

// secondClient keeps a connection for each request that may be under way; the
// default client keeps two.
var secondClient = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}

// callSecond asks a service and returns its answer.
func callSecond(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := secondClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("second service: %s", resp.Status)
	}
	return b, err
}
