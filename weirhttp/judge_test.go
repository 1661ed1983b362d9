package weirhttp_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/internal/histories"
	"github.com/weir-go/weir/internal/judge"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirhttp"
)

// judgeCan are the options of decision 0090 that weirhttp has.
var judgeCan = judge.All

// judgeOptions returns the Options of a route.
func judgeOptions(h judge.History) weirhttp.Options {
	r := h.Route
	o := weirhttp.Options{
		NoReceipt: true,
		Limiter:   limit.All(), // nothing is rejected
		Policy: weirhttp.Policy{
			TTL: r.TTL, ErrorTTL: r.ErrorTTL, Force: r.Force, Heuristic: r.Heuristic,
			StaleWhileRevalidate: r.StaleWhileRevalidate, StaleIfError: r.StaleIfError,
			Vary: r.Vary, IgnoreHeaders: r.Ignore,
		},
	}
	o.Policy.UnkeyedHeaders, o.Policy.AnyClient, o.Identity = r.Unkeyed, r.AnyClient, judge.Identity
	switch h.Way {
	case judge.Read:
		o.Reads = []weirhttp.ReadRule{{Methods: []string{"POST", "QUERY"}, Types: []string{"application/json"}}}
	case judge.Stream:
		o.Events = weirhttp.EventPolicy{Share: true, TTL: r.TTL, End: "[DONE]"}
	}
	return o
}

// openJudged is judge.Open over weirhttp.
func openJudged(h judge.History, origin http.Handler) (judge.System, error) {
	switch h.Way {
	case judge.Private:
		return newJudgedTransport(h, origin)
	case judge.Fleet:
		return newJudgedFleet(h, origin)
	}
	s := &judgedHandlers{history: h}
	return s, s.add(origin, judgeOptions(h))
}

// judgedHandlers are Handlers, each with a Cache, in turn by Request.Instance.
type judgedHandlers struct {
	history  judge.History
	handlers []*weirhttp.Handler
	caches   []*weirhttp.Cache
	tier     *fleet.Memory
}

func newJudgedFleet(h judge.History, origin http.Handler) (judge.System, error) {
	s := &judgedHandlers{history: h, tier: fleet.NewMemory(fleet.MemoryOptions{})}
	for range 2 {
		o := judgeOptions(h)
		o.Fleet = weirhttp.FleetOptions{Config: fleet.Config{Tier: s.tier}}
		if err := s.add(origin, o); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *judgedHandlers) add(origin http.Handler, o weirhttp.Options) error {
	cache, err := weirhttp.NewCache(weirhttp.DefaultCacheBytes)
	if err != nil {
		return err
	}
	o.Cache = cache
	handler, err := weirhttp.New(origin, o)
	if err != nil {
		return err
	}
	s.handlers, s.caches = append(s.handlers, handler), append(s.caches, cache)
	return nil
}

func (s *judgedHandlers) Do(ctx context.Context, c judge.Client, r judge.Request) (a judge.Reply) {
	w := httptest.NewRecorder()
	defer func() {
		a = judge.Reply{Status: w.Code, Header: w.Result().Header, Body: w.Body.String()}
		if p := recover(); p != nil {
			if p != http.ErrAbortHandler {
				panic(p)
			}
			a.Broken = true
		}
	}()
	s.handlers[r.Instance%len(s.handlers)].ServeHTTP(w, r.HTTP(ctx, c, s.history.Route.TLS))
	return a
}

func (s *judgedHandlers) Purge(target string) {
	scheme, host := s.history.URL()
	if _, err := s.caches[0].Invalidate(context.Background(), scheme, host, target); err != nil {
		panic(err)
	}
	synctest.Wait() // the push has reached the other instance
}

func (s *judgedHandlers) Close() {
	for i, h := range s.handlers {
		_ = h.Close(context.Background())
		_ = s.caches[i].Close(context.Background())
	}
	if s.tier != nil {
		_ = s.tier.Close(context.Background())
	}
}

// judgedTransport is a private Transport whose base is the origin itself.
type judgedTransport struct {
	history   judge.History
	transport *weirhttp.Transport
	cache     *weirhttp.Cache
}

type judgedBase struct{ origin http.Handler }

func (b judgedBase) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	b.origin.ServeHTTP(w, r)
	resp := w.Result()
	resp.Request = r
	if r.Method != http.MethodHead && resp.StatusCode != http.StatusNotModified {
		resp.ContentLength = int64(w.Body.Len()) // without a length it would end with its connection, and not be stored
	}
	return resp, nil
}

func newJudgedTransport(h judge.History, origin http.Handler) (judge.System, error) {
	cache, err := weirhttp.NewCache(weirhttp.DefaultCacheBytes)
	if err != nil {
		return nil, err
	}
	o := judgeOptions(h)
	o.Cache = cache
	t, err := weirhttp.NewPrivateTransport(judgedBase{origin}, o)
	return &judgedTransport{h, t, cache}, err
}

func (s *judgedTransport) Do(ctx context.Context, c judge.Client, r judge.Request) judge.Reply {
	request := r.HTTP(ctx, c, s.history.Route.TLS)
	request.RequestURI, request.RemoteAddr, request.TLS = "", "", nil
	resp, err := s.transport.RoundTrip(request)
	if err != nil {
		return judge.Reply{Header: http.Header{}, Broken: true}
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	return judge.Reply{Status: resp.StatusCode, Header: resp.Header, Body: string(body), Broken: err != nil}
}

func (s *judgedTransport) Purge(target string) {
	scheme, host := s.history.URL()
	if _, err := s.cache.Invalidate(context.Background(), scheme, host, target); err != nil {
		panic(err)
	}
}

func (s *judgedTransport) Close() { _ = s.transport.Close(context.Background()) }

func playJudged(t *testing.T, h judge.History) (faults []judge.Fault, tally judge.Tally) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		rec, err := judge.Play(h, openJudged)
		if err != nil {
			t.Fatalf("%v\n%v", err, h)
		}
		faults, tally = judge.Judge(rec)
	})
	return faults, tally
}

// No client gets a response that is not for it, and what must be shared is one call: the
// judge knows the rule of decision 0090, and nothing of the code.
func TestH2H3H29H30H32H33_TheJudgeFindsNoFault(t *testing.T) {
	tallies := map[judge.Way]*judge.Tally{}
	for seed := range histories.Seeds(t, 5000, 100_000) {
		h := judge.Draw(seed, judgeCan)
		faults, tally := playJudged(t, h)
		if len(faults) > 0 {
			small := judge.Shrink(h, func(h judge.History) bool {
				again, _ := playJudged(t, h)
				return slices.ContainsFunc(again, func(f judge.Fault) bool { return f.Class == faults[0].Class })
			})
			again, _ := playJudged(t, small)
			for _, f := range again {
				t.Errorf("%s (%s)", f.Text, f.Class)
			}
			t.Errorf("the history, made as short as it could be:\n%v", small)
			break // others may have the same cause
		}
		if tallies[h.Way] == nil {
			tallies[h.Way] = &judge.Tally{}
		}
		tallies[h.Way].Add(tally)
	}
	if histories.Alone() || t.Failed() {
		return
	}
	for _, way := range judge.Ways {
		c := tallies[way]
		t.Logf("%-8s must %6d, must not %6d, may %6d, shared %6d", way, c.Must, c.MustNot, c.May, c.Shared)
		if c.Must*5 < c.Pairs() {
			t.Errorf("%s: %d of %d pairs must share; want a fifth", way, c.Must, c.Pairs())
		}
	}
}

// Each field that the reference lists as an identity is one to the judge, or always counts.
// The judge has typed the list; a name that is in one alone is a mistake in the other.
func TestH2_TheJudgeKnowsEachIdentity(t *testing.T) {
	listed := weirhttp.DefaultIdentity()
	for _, name := range listed {
		if kind := judge.KindOf(name, nil); kind != judge.KindIdentity && kind != judge.KindForwarding {
			t.Errorf("%s is of kind %s to the judge; want %s", name, kind, judge.KindIdentity)
		}
	}
	for name, kind := range judge.Names() {
		if kind == judge.KindIdentity && !slices.Contains(listed, name) {
			t.Errorf("the judge knows %s as an identity; DefaultIdentity does not", name)
		}
	}
}
