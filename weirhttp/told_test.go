package weirhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/flight"
	"github.com/weir-go/weir/weirhttp"
)

// A tracer is an Observer like one for traces: it numbers calls, passes the number to
// the next handler in a field, and remembers the calls it received.
type tracer struct {
	mu     sync.Mutex
	starts []weirhttp.CallInfo
	ends   []ended
	waits  []weirhttp.Wait
}

type ended struct {
	call int // its number, from the context
	info weirhttp.CallInfo
	weirhttp.CallEnd
}

type numberKey struct{}

func number(ctx context.Context) int {
	if ctx == nil {
		return -1
	}
	n, _ := ctx.Value(numberKey{}).(int)
	return n
}

func (tr *tracer) Event(context.Context, weirhttp.Event) {}

func (tr *tracer) CallStart(ctx context.Context, c weirhttp.CallInfo, header http.Header) context.Context {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.starts = append(tr.starts, c)
	header.Set("Traceparent", fmt.Sprint("call-", len(tr.starts)))
	return context.WithValue(ctx, numberKey{}, len(tr.starts))
}

func (tr *tracer) CallEnd(ctx context.Context, c weirhttp.CallInfo, end weirhttp.CallEnd) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if err := ctx.Err(); err != nil {
		end.Err = fmt.Errorf("the context has ended: %w", err)
	}
	tr.ends = append(tr.ends, ended{number(ctx), c, end})
}

func (tr *tracer) Waited(_ context.Context, w weirhttp.Wait) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.waits = append(tr.waits, w)
}

// told returns the calls received so far.
func (tr *tracer) told() (starts []weirhttp.CallInfo, ends []ended, waits []weirhttp.Wait) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.starts, tr.ends, tr.waits
}

// wantPairs checks that n calls were reported, each with one end.
func (tr *tracer) wantPairs(t *testing.T, n uint64) []ended {
	t.Helper()
	starts, ends, _ := tr.told()
	times := map[int]int{}
	for _, e := range ends {
		times[e.call]++
	}
	if uint64(len(starts)) != n || uint64(len(ends)) != n || uint64(len(times)) != n || times[0] > 0 {
		t.Fatalf("%d starts, and ends %v; want one of each for %d calls", len(starts), times, n)
	}
	for _, e := range ends {
		if s := starts[e.call-1]; e.info != s {
			t.Errorf("CallEnd has %+v; CallStart had %+v", e.info, s)
		}
	}
	return ends
}

func TestC9_EachCallStartHasItsEnd(t *testing.T) {
	broken := errors.New("whatever: it broke off")
	for _, row := range []struct {
		name   string
		method string
		path   string
		fields []string
		within time.Duration // when the client hangs up
		set    func(o *weirhttp.Options)
		status int
		err    error // of the last call; broken for any
	}{
		{name: "shared", path: "/fresh", status: 200},
		{name: "alone", path: "/", fields: []string{"Cookie", "a=b"}, status: 200},
		{name: "HEAD", method: "HEAD", path: "/", status: 200},
		{name: "POST", method: "POST", path: "/", status: 200},
		{name: "refresh", path: "/stale", status: 200},
		{name: "observed", path: "/fresh", set: observing, status: 200},
		{name: "panic", path: "/panic", err: &flight.PanicError{}},
		{name: "panic, alone", path: "/panic", fields: []string{"Cookie", "a=b"}, err: &flight.PanicError{}},
		{name: "panic, POST", method: "POST", path: "/panic", err: &flight.PanicError{}},
		{name: "panic, observed", path: "/panic", set: observing, err: broken},
		{name: "broken off", path: "/broken", status: 200, err: broken},
		{name: "broken off, alone", path: "/broken", fields: []string{"Cookie", "a=b"}, status: 200, err: broken},
		{name: "broken off, POST", method: "POST", path: "/broken", status: 200, err: broken},
		{name: "broken off, observed", path: "/broken", set: observing, status: 200, err: broken},
		{name: "no answer in time", path: "/hangs", err: context.DeadlineExceeded},
		{name: "no answer in time, alone", path: "/hangs", fields: []string{"Cookie", "a=b"}, err: context.DeadlineExceeded},
		{name: "no answer in time, POST", method: "POST", path: "/hangs", err: context.DeadlineExceeded},
		{name: "abandoned", path: "/hangs", within: slow, err: weirhttp.ErrAbandoned},
		{name: "abandoned, alone", path: "/hangs", fields: []string{"Cookie", "a=b"}, within: slow, err: context.Canceled},
		{name: "abandoned, POST", method: "POST", path: "/hangs", within: slow, err: context.Canceled},
		{name: "abandoned, observed", path: "/hangs", within: slow, set: observing, status: 200},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := new(tracer)
				o := weirhttp.Options{HeadTimeout: time.Second, Observer: tr, Route: "shop"}
				if row.set != nil {
					row.set(&o)
				}
				s := open(t, h1, o, everything)
				for range 2 {
					ctx, hangUp := t.Context(), func() {}
					if row.within > 0 {
						ctx, hangUp = context.WithTimeout(ctx, row.within)
					}
					method := row.method
					if method == "" {
						method = "GET"
					}
					s.do(s.request(ctx, method, row.path, row.fields...))
					hangUp()
					time.Sleep(2 * time.Second)
				}
				ends := tr.wantPairs(t, s.handler.Stats().Calls)
				last := ends[len(ends)-1]
				if last.Status != row.status || !sameEnd(last.Err, row.err, broken) {
					t.Errorf("CallEnd has %d, %v; want %d, %v", last.Status, last.Err, row.status, row.err)
				}
				if last.info.Route != "shop" || last.info.Request.URL.Path != row.path || last.info.Background != (row.name == "refresh") {
					t.Errorf("CallInfo = %+v; want the route, the request, and whether it was a refresh", last.info)
				}
			})
		})
	}
}

func observing(o *weirhttp.Options) { o.Observe = true }

func sameEnd(got, want, broken error) bool {
	if want == broken {
		return got != nil
	}
	if p := new(flight.PanicError); errors.As(want, &p) {
		return errors.As(got, &p)
	}
	return errors.Is(got, want)
}

func TestC9_HitsAndRefusalsAreNoCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := new(tracer)
		s := open(t, h1, weirhttp.Options{Observer: tr}, everything)
		for range 5 {
			s.get("/fresh")
		}
		s.get("/other", "Cache-Control", "only-if-cached")
		tr.wantPairs(t, 1)
		if _, _, waits := tr.told(); len(waits) != 0 {
			t.Errorf("waits = %+v; want none", waits)
		}
	})
}

func TestC9_TimesOfACall(t *testing.T) {
	for _, row := range []struct {
		name, method string
		set          func(*weirhttp.Options)
		fields       []string
	}{
		{name: "shared", method: "GET"},
		{name: "alone", method: "GET", fields: []string{"Cookie", "a=b"}},
		{name: "POST", method: "POST"},
		{name: "observed", method: "GET", set: observing},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := new(tracer)
				o := weirhttp.Options{Observer: tr, Limiter: lateness(slow)}
				if row.set != nil {
					o.Limiter = nil // observe mode does not wait
					row.set(&o)
				}
				s := open(t, h1, o, func(w http.ResponseWriter, _ *http.Request) {
					time.Sleep(slow)
					w.(http.Flusher).Flush()
					time.Sleep(2 * slow)
					_, _ = io.WriteString(w, "x")
				})
				began := time.Now()
				s.do(s.request(t.Context(), row.method, "/", row.fields...))
				synctest.Wait()
				got := tr.wantPairs(t, 1)[0].CallEnd
				want := weirhttp.CallEnd{Start: began.Add(slow), Headed: slow, Duration: 3 * slow, Queued: slow, Status: 200}
				if o.Limiter == nil {
					want.Start, want.Queued = began, 0
				}
				if !got.Start.Equal(want.Start) {
					t.Errorf("Start is %v after the request; want %v", got.Start.Sub(began), want.Start.Sub(began))
				}
				got.Start = want.Start
				if got != want {
					t.Errorf("CallEnd = %+v; want %+v", got, want)
				}
			})
		})
	}
}

func TestC9_AWaitIsLinkedToItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := new(tracer)
		s := open(t, h1, weirhttp.Options{Observer: tr, Route: "shop", HeadTimeout: 2 * slow}, func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/hangs" {
				<-r.Context().Done()
				return
			}
			time.Sleep(slow)
		})
		s.get("/another") // so that the next call does not have number 1
		go s.get("/a")
		time.Sleep(slow / 4)
		leaver, hangUp := context.WithTimeout(t.Context(), slow/4)
		defer hangUp()
		began := time.Now()
		go s.do(s.request(leaver, "GET", "/a"))
		s.get("/a")
		time.Sleep(slow)
		_, _, waits := tr.told()
		if len(waits) != 2 {
			t.Fatalf("waits = %+v; want those of the two requests that joined", waits)
		}
		for i, took := range []time.Duration{slow / 4, slow * 3 / 4} {
			w := waits[i]
			if w.Route != "shop" || !w.Start.Equal(began) || w.Duration != took || number(w.Call) != 2 {
				t.Errorf("wait %d = %+v for call %d; want %v for call 2", i, w, number(w.Call), took)
			}
		}
		if waits[0].Err == nil || waits[1].Err != nil {
			t.Errorf("errors = %v, %v; want an error only for the client that left", waits[0].Err, waits[1].Err)
		}

		s.together(2, s.same("/hangs"))
		_, _, waits = tr.told()
		if w := waits[len(waits)-1]; len(waits) != 3 || !errors.Is(w.Err, context.DeadlineExceeded) || number(w.Call) != 3 {
			t.Errorf("waits = %+v; want one more, for the call that failed", waits)
		}
	})
}

func TestC9_AWaitForACallThatHasNotStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := new(tracer)
		s := open(t, h1, weirhttp.Options{Observer: tr, Limiter: lateness(slow)}, answering(0))
		go s.get("/a")
		time.Sleep(slow / 4)
		leaver, hangUp := context.WithTimeout(t.Context(), slow/4)
		defer hangUp()
		s.do(s.request(leaver, "GET", "/a"))
		synctest.Wait()
		if _, _, waits := tr.told(); len(waits) != 1 || waits[0].Call != nil {
			t.Errorf("waits = %+v; want one, without a call", waits)
		}
		time.Sleep(slow)
	})
}

// TestC9_AFieldOfCallStartReachesTheNextHandlerOnly: it is in the request of the
// call, and is not compared, stored or sent to clients.
func TestC9_AFieldOfCallStartReachesTheNextHandlerOnly(t *testing.T) {
	for _, row := range []struct {
		name   string
		set    func(*weirhttp.Options)
		fields []string // of the response
		calls  uint64   // for six requests, three of them at once
	}{
		{name: "stored", fields: []string{"Cache-Control", "max-age=60"}, calls: 1},
		{name: "stored, by that field", fields: []string{"Cache-Control", "max-age=60", "Vary", "Traceparent"}, calls: 1},
		{
			name: "stored, kept apart by that field", fields: []string{"Cache-Control", "max-age=60"}, calls: 1,
			set: func(o *weirhttp.Options) { o.Policy.Vary = []string{"Traceparent"} },
		},
		{name: "validated", fields: []string{"Cache-Control", "max-age=0", "Etag", `"1"`}, calls: 4},
		{name: "shared by alike requests", fields: []string{"Cache-Control", "max-age=0"}, calls: 4},
		{name: "shared by nobody", fields: []string{"Cache-Control", "no-store"}, calls: 6},
		{name: "observed", fields: []string{"Cache-Control", "max-age=60", "Vary", "Traceparent"}, calls: 6, set: observing},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := new(tracer)
				o := weirhttp.Options{Observer: tr, ReceiptKey: true}
				if row.set != nil {
					row.set(&o)
				}
				var mu sync.Mutex
				seen := map[string]int{} // guarded by mu
				s := open(t, h1, o, func(w http.ResponseWriter, r *http.Request) {
					mu.Lock()
					seen[r.Header.Get("Traceparent")]++
					mu.Unlock()
					if got := r.Header.Get("Traceparent"); got != fmt.Sprint("call-", number(r.Context())) {
						t.Errorf("the call with context %d has Traceparent %q", number(r.Context()), got)
					}
					answering(slow, row.fields...)(w, r)
				})
				var outside sync.Mutex
				s.client = dialled(t, h1, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					s.handler.ServeHTTP(w, r)
					outside.Lock()
					defer outside.Unlock()
					if got := r.Header.Values("Traceparent"); len(got) > 0 {
						t.Errorf("the client's request has Traceparent %q", got)
					}
				}))
				replies := s.together(3, s.same("/a"))
				for range 3 {
					replies = append(replies, s.get("/a"))
				}
				synctest.Wait()
				for _, r := range replies {
					r.want(t, 200, "/a")
					if text := fmt.Sprint(r.header); strings.Contains(text, "call-") {
						t.Errorf("a response has %s; want no field of a call", text)
					}
				}
				tr.wantPairs(t, row.calls)
				if len(seen) != int(row.calls) || seen[""] > 0 {
					t.Errorf("the origin saw %v; want one number for each of %d calls", seen, row.calls)
				}
				starts, _, _ := tr.told()
				for _, c := range starts {
					if got := c.Request.Header.Values("Traceparent"); len(got) > 0 {
						t.Errorf("CallInfo.Request has %q; want no field of a call", got)
					}
				}
				if row.set != nil && o.Observe {
					if got := s.handler.Stats().Observed; got.Hits != 3 || got.Joined != 2 {
						t.Errorf("Observed = %+v; want 3 hits and 2 joined", got)
					}
				}
			})
		})
	}
}

// A bad tracer panics in every method, or returns nil.
type bad struct{ tracer }

func (b *bad) CallStart(ctx context.Context, c weirhttp.CallInfo, h http.Header) context.Context {
	b.tracer.CallStart(ctx, c, h)
	if c.Request.URL.Path == "/nil" {
		return nil
	}
	panic("CallStart")
}

func (b *bad) CallEnd(ctx context.Context, c weirhttp.CallInfo, end weirhttp.CallEnd) {
	b.tracer.CallEnd(ctx, c, end)
	panic("CallEnd")
}

func (b *bad) Waited(ctx context.Context, w weirhttp.Wait) {
	b.tracer.Waited(ctx, w)
	panic("Waited")
}

func (b *bad) Event(context.Context, weirhttp.Event) { panic("Event") }

func TestC9_PanicsOfAnObserverAreSwallowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := new(bad)
		s := open(t, h1, weirhttp.Options{Observer: b}, answering(slow, "Cache-Control", "max-age=60"))
		for _, r := range s.together(3, s.same("/a")) {
			r.want(t, 200, "/a")
		}
		s.get("/nil").want(t, 200, "/nil")
		s.get("/alone", "Cookie", "a=b").want(t, 200, "/alone")
		s.do(s.request(t.Context(), "POST", "/post")).want(t, 200, "/post")
		synctest.Wait()
		if starts, ends, waits := b.told(); len(starts) != 4 || len(ends) != 4 || len(waits) != 2 {
			t.Errorf("received %d starts, %d ends, %d waits; want 4, 4, 2", len(starts), len(ends), len(waits))
		}

		s = open(t, h1, weirhttp.Options{Observer: b}, everything)
		if r := s.get("/panic"); r.status != 500 { // Event
			t.Errorf("got %d, %v; want 500", r.status, r.err)
		}
	})
}
