package weirhttp_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/weirhttp"
)

// twoHandlers returns a Handler whose calls fail, and whose Fallback is a Handler in front of next.
// change alters the options of both.
func twoHandlers(t *testing.T, store bool, next http.HandlerFunc, change func(first, second *weirhttp.Options)) (first, second *weirhttp.Handler) {
	t.Helper()
	one := weirhttp.Options{Gateway: true, HeadTimeout: 10 * time.Second}
	two := weirhttp.Options{Gateway: true, HeadTimeout: 10 * time.Second, NoStore: !store, NoCoalescing: !store}
	one.Fallback = &weirhttp.Fallback{Serve: func(w http.ResponseWriter, r *http.Request, _ error) bool {
		second.ServeFallback(w, r, weirhttp.FallbackCall{Name: "other", Reason: "down", Began: time.Now(), Store: store})
		return true
	}}
	if change != nil {
		change(&one, &two)
	}
	var err error
	if second, err = weirhttp.New(next, two); err != nil {
		t.Fatal(err)
	}
	if first, err = weirhttp.New(failing, one); err != nil {
		t.Fatal(err)
	}
	return first, second
}

// The deadline that a client states ends with the head of the response also if that is a
// Fallback's: a body that has begun is not cut off (H44).
func TestH40_ADeadlineDoesNotCutOffTheOthersBody(t *testing.T) {
	for _, method := range []string{"GET", "POST"} {
		for _, store := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				first, _ := twoHandlers(t, store, func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Length", "2")
					io.WriteString(w, "a")
					w.(http.Flusher).Flush()
					select {
					case <-time.After(5 * time.Second):
						io.WriteString(w, "b")
					case <-r.Context().Done():
						weirhttp.SinkOf(w).Fail(context.Cause(r.Context()))
					}
				}, func(first, second *weirhttp.Options) {
					first.Deadline = weirhttp.DurationField{Name: "X-Time", Unit: weirhttp.Seconds}
					second.Deadline = first.Deadline
				})
				w, r := httptest.NewRecorder(), httptest.NewRequest(method, "/", nil)
				r.Header.Set("X-Time", "2")
				func() {
					defer func() { _ = recover() }() // http.ErrAbortHandler cuts off the response
					first.ServeHTTP(w, r)
				}()
				if w.Code != 200 || w.Body.String() != "ab" {
					t.Errorf("%s, store %v: %d %q; want the whole body", method, store, w.Code, w.Body)
				}
			})
		}
	}
}

// A client that states a time waits no longer than that for the other upstream.
func TestH40_ADeadlineHoldsForTheOther(t *testing.T) {
	for _, method := range []string{"GET", "POST"} {
		for _, store := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				first, _ := twoHandlers(t, store, func(w http.ResponseWriter, r *http.Request) {
					<-r.Context().Done()
					weirhttp.SinkOf(w).Fail(context.Cause(r.Context()))
				}, func(first, second *weirhttp.Options) {
					first.Deadline = weirhttp.DurationField{Name: "X-Time", Unit: weirhttp.Seconds}
					second.Deadline = first.Deadline
				})
				w, r, began := httptest.NewRecorder(), httptest.NewRequest(method, "/", nil), time.Now()
				r.Header.Set("X-Time", "2")
				first.ServeHTTP(w, r)
				if took := time.Since(began); w.Code != 504 || took != 2*time.Second {
					t.Errorf("%s, store %v: %d after %v; want 504 after 2s", method, store, w.Code, took)
				}
				synctest.Wait()
			})
		}
	}
}

type callEnds struct {
	weirhttp.NopObserver
	took []time.Duration
}

func (o *callEnds) CallEnd(_ context.Context, _ weirhttp.CallInfo, end weirhttp.CallEnd) {
	o.took = append(o.took, end.Duration)
}

// The first call has ended when the other one begins: it is not in flight, and its time does not grow.
func TestH40_TheFirstCallHasEnded(t *testing.T) {
	for _, method := range []string{"GET", "HEAD", "POST"} {
		synctest.Test(t, func(t *testing.T) {
			var first *weirhttp.Handler
			calls := new(callEnds)
			first, _ = twoHandlers(t, false, func(w http.ResponseWriter, r *http.Request) {
				if n := first.Stats().InFlight; n != 0 {
					t.Errorf("%s: %d calls of the first are in flight; want 0", method, n)
				}
				time.Sleep(5 * time.Second)
				io.WriteString(w, "other")
			}, func(first, _ *weirhttp.Options) { first.Observer = calls })
			w := httptest.NewRecorder()
			first.ServeHTTP(w, httptest.NewRequest(method, "/", strings.NewReader("")))
			synctest.Wait()
			if len(calls.took) != 1 || calls.took[0] != 0 {
				t.Errorf("%s: the first call took %v; want one of 0 s", method, calls.took)
			}
		})
	}
}
