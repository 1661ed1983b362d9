package scenarios

import (
	"context"
	"time"

	"github.com/weir-go/weir/lab/result"
	"github.com/weir-go/weir/lab/scenario"
)

var grpcStampede = scenario.Scenario{
	Name:    "grpc-stampede",
	Title:   "A stampede on a gRPC method",
	Asks:    "Two hundred clients call an expensive gRPC method for a few keys, some of them with credentials. How many calls reach the method, and does a user ever get the response of another?",
	Service: grpcService,
	Run:     runGRPCStampede,
}

// The variants of grpc-stampede beside unprotected, coalescing and cached.
const (
	perUser     = "weir cached, a user is part of the identity"
	userIgnored = "weir cached, users declared irrelevant" // a mistake, which the checks must notice
)

// Names of counts.
const (
	wrongItem    = "answers with another item"
	wrongUser    = "answers for another user"
	failedShared = "requests without credentials that fail"
)

// A grpcCrowd is the load on the method, and the method's cost.
type grpcCrowd struct {
	Call                  time.Duration // what an execution takes
	Slots                 int           // executions at once
	Clients, Each         int           // requests of each client, one after another
	Keys, Users, OneInAll int           // one request in OneInAll has the credentials of its client
	Deadline              time.Duration
}

// authorized reports whether request i of a client has credentials.
func (c grpcCrowd) authorized(client, i int) bool { return (client+i)%c.OneInAll == 0 }

// withCredentials is the number of requests with credentials.
func (c grpcCrowd) withCredentials() (n int) {
	for client := range c.Clients {
		for i := range c.Each {
			if c.authorized(client, i) {
				n++
			}
		}
	}
	return n
}

func runGRPCStampede(ctx context.Context, l *scenario.Lab) error {
	c := scenario.Size(l,
		grpcCrowd{Call: 50 * time.Millisecond, Slots: 8, Clients: 200, Each: 20, Keys: 20, Users: 8, OneInAll: 10, Deadline: time.Second},
		grpcCrowd{Call: 5 * time.Millisecond, Slots: 8, Clients: 40, Each: 10, Keys: 5, Users: 4, OneInAll: 10, Deadline: patience})
	for _, variant := range []string{unprotected, coalescing, cached, perUser, userIgnored} {
		s, err := l.Serve(ctx, variant, c)
		if err != nil {
			return err
		}
		m, err := l.MeasureBy(ctx, s, scenario.Job{}, func(ctx context.Context) (result.Measurement, error) {
			return c.send(ctx, s.URL)
		})
		if err != nil {
			return err
		}
		l.Check(variant+": no answer has another item", m.Values[wrongItem] == 0, "%.0f of %d", m.Values[wrongItem], m.Requests)
		if variant == userIgnored {
			l.Check("users declared irrelevant: the lab notices that users are mixed up", m.Values[wrongUser] > 0, "%.0f answers", m.Values[wrongUser])
		} else {
			l.Check(variant+": no answer is for another user", m.Values[wrongUser] == 0, "%.0f of %d", m.Values[wrongUser], m.Requests)
		}
		if err := s.Stop(); err != nil {
			return err
		}
	}
	c.judge(l)
	return nil
}

// judge records the checks and rows that compare variants.
func (c grpcCrowd) judge(l *scenario.Lab) {
	before, joined, kept, own := l.One(unprotected), l.One(coalescing), l.One(cached), l.One(perUser)
	n := int64(c.withCredentials())
	l.Check("unprotected: each successful response is a call", before.Source.Calls >= before.Good, "%d calls, %d answers", before.Source.Calls, before.Good)
	l.Check("coalescing: at most half the calls", 2*joined.Source.Calls <= before.Source.Calls, "%d calls, %d unprotected", joined.Source.Calls, before.Source.Calls)
	l.Check("cached: at most a call for each key, and for each request with credentials", kept.Source.Calls <= int64(c.Keys)+n,
		"%d calls, %d keys, %d requests with credentials", kept.Source.Calls, c.Keys, n)
	l.Check("cached for each user: at most a call for each key and user", own.Source.Calls <= int64(c.Keys*(c.Users+1)),
		"%d calls, %d keys, %d users", own.Source.Calls, c.Keys, c.Users)
	for _, m := range []result.Measurement{joined, kept, own} {
		l.CheckTime(m.Variant+": no request without credentials fails", m.Values[failedShared] == 0, "%.0f failed, and %.0f with credentials",
			m.Values[failedShared], float64(m.Failures)-m.Values[failedShared])
	}
	l.CheckTime(perUser+": no request fails", own.Failures == 0, "%d of %d failed: %s", own.Failures, own.Requests, own.FirstFailure)
	l.Row(result.NewRow("calls of the method, unprotected → coalescing", "calls", result.Lower).Here(float64(before.Source.Calls), float64(joined.Source.Calls)))
	l.Row(result.NewRow("calls of the method, unprotected → cached", "calls", result.Lower).Here(float64(before.Source.Calls), float64(kept.Source.Calls)))
	l.Row(result.NewRow("calls of the method, unprotected → cached for each user", "calls", result.Lower).Here(float64(before.Source.Calls), float64(own.Source.Calls)))
	l.Row(result.NewRow("successful responses, unprotected → cached", "answers/s", result.Higher).Here(before.PerSecond, kept.PerSecond))
	l.Row(result.NewRow("requests that fail, unprotected → cached", "requests", result.Lower).Here(float64(before.Failures), float64(kept.Failures)))
	l.Note("%d of %d requests have credentials. Weir shares none of them unless the policy makes the credentials part of the identity.", n, c.Clients*c.Each)
	l.Note("Requests with credentials that share nothing need an execution each. With a cache the other requests no longer slow their clients down, " +
		"so those with credentials arrive faster than the method can execute them, and some fail at their deadline.")
	l.Note("The last variant is a mistake in the policy, made on purpose: it shows that the lab notices answers for another user. Its successful responses include those.")
}
