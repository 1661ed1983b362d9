package weirhttp_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirhttp"
)

type linkKey struct{}

// A link is one Observer of several, which all record their calls in one log.
type link struct {
	name string
	log  *[]string
	act  func()
}

func (l link) note(ctx context.Context, method string) {
	own, _ := ctx.Value(linkKey{}).(string)
	*l.log = append(*l.log, method+" "+l.name+" "+own)
	if l.act != nil {
		l.act()
	}
}

func (l link) CallStart(ctx context.Context, _ weirhttp.CallInfo, h http.Header) context.Context {
	h.Add("Seen", l.name)
	l.note(ctx, "start")
	return context.WithValue(ctx, linkKey{}, "of "+l.name)
}

func (l link) CallEnd(ctx context.Context, _ weirhttp.CallInfo, _ weirhttp.CallEnd) {
	l.note(ctx, "end")
}
func (l link) Waited(_ context.Context, w weirhttp.Wait)   { l.note(w.Call, "waited") }
func (l link) Event(ctx context.Context, _ weirhttp.Event) { l.note(ctx, "event") }

// C9: each Observer gets the contexts that it returned, ends come in reverse order,
// and a panic in one does not keep the others from being called.
func TestC9_ObserversAreChained(t *testing.T) {
	for _, act := range []func(){nil, func() { panic("a") }} {
		var log []string
		o := weirhttp.Observers(link{"a", &log, act}, nil, link{"b", &log, nil})
		header := make(http.Header)
		try := func(f func()) {
			defer func() { recover() }()
			f()
		}
		ctx := o.CallStart(t.Context(), weirhttp.CallInfo{}, header)
		try(func() { o.Waited(t.Context(), weirhttp.Wait{Call: ctx}) })
		try(func() { o.CallEnd(ctx, weirhttp.CallInfo{}, weirhttp.CallEnd{}) })
		try(func() { o.Event(t.Context(), weirhttp.Event{}) })
		own := "of a"
		if act != nil {
			own = "" // it has returned no context
		}
		want := []string{"start a ", "start b " + own, "waited a " + own, "waited b of b", "end b of b", "end a " + own, "event a ", "event b "}
		if !slices.Equal(log, want) || !slices.Equal(header["Seen"], []string{"a", "b"}) {
			t.Errorf("calls = %q, %v; want %q", log, header, want)
		}
	}
}

// A panic of an Observer is counted, and the request still gets its response.
func TestC9_ObserverPanicsAreCounted(t *testing.T) {
	var log []string
	h, err := weirhttp.New(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), weirhttp.Options{
		Observer: link{"a", &log, func() { panic("observer") }},
	})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	if err := h.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if n := h.Stats().ObserverPanics; n != 2 || len(log) != 2 || w.Code != 200 {
		t.Errorf("ObserverPanics = %d, %q, status %d; want 2, for the start and the end, and status 200", n, log, w.Code)
	}
}

// An exiter ends its goroutine in one of its methods.
type exiter struct{ in string }

func (e exiter) exit(method string) {
	if e.in == method {
		runtime.Goexit()
	}
}

func (e exiter) CallStart(ctx context.Context, _ weirhttp.CallInfo, _ http.Header) context.Context {
	e.exit("CallStart")
	return ctx
}
func (e exiter) CallEnd(context.Context, weirhttp.CallInfo, weirhttp.CallEnd) { e.exit("CallEnd") }
func (e exiter) Waited(context.Context, weirhttp.Wait)                        { e.exit("Waited") }
func (e exiter) Event(context.Context, weirhttp.Event)                        { e.exit("Event") }

// runtime.Goexit in an Observer ends only the requests on whose goroutines it
// happens. Others keep everything that they need: permits, flights, and the end of
// Close.
func TestC9_ObserversThatExitLeakNothing(t *testing.T) {
	for _, in := range []string{"CallStart", "CallEnd", "Waited", "Event"} {
		for _, method := range []string{"GET", "POST"} {
			for _, failing := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					c, err := limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 2})
					if err != nil {
						t.Fatal(err)
					}
					h, err := weirhttp.New(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
						time.Sleep(time.Second)
						if failing {
							weirhttp.SinkOf(w).Fail(context.DeadlineExceeded)
						}
					}), weirhttp.Options{Limiter: c, Observer: exiter{in}})
					if err != nil {
						t.Fatal(err)
					}
					var requests sync.WaitGroup
					for range 3 {
						requests.Go(func() {
							ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
							defer cancel()
							h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, method, "http://a/", nil))
						})
					}
					requests.Wait()
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					err = h.Close(ctx)
					synctest.Wait()
					if s := h.Stats(); err != nil || c.Stats().InUse != 0 || s.InFlight != 0 || s.Waiting != 0 || s.Flights != 0 {
						t.Errorf("%s, %s, failing %v: Close = %v, %d permits in use, %+v; want none", in, method, failing, err, c.Stats().InUse, s)
					}
				})
			}
		}
	}
}
