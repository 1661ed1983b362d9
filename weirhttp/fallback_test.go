package weirhttp_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirhttp"
)

var errOrigin = errors.New("the origin is away")

// failing is a forwarder without a response.
var failing = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	weirhttp.SinkOf(w).Fail(&weirhttp.ForwardError{Err: errOrigin, Unreachable: true})
})

// A call that a Fallback has taken over has the time that is left, in the queue and at the
// origin.
func TestH40_TheTimeThatIsLeft(t *testing.T) {
	for _, queued := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			limiter := limit.Must(limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 1, MaxWait: time.Minute}))
			if queued {
				p, err := limiter.Acquire(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer p.Release(limit.Success)
			}
			o := weirhttp.Options{Gateway: true, HeadTimeout: 10 * time.Second, NoStore: true, NoCoalescing: true, Limiter: limiter}
			second, err := weirhttp.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				<-r.Context().Done()
				weirhttp.SinkOf(w).Fail(r.Context().Err())
			}), o)
			if err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			o = weirhttp.Options{Gateway: true, HeadTimeout: 10 * time.Second, Fallback: &weirhttp.Fallback{
				Serve: func(w http.ResponseWriter, r *http.Request, err error) bool {
					if !errors.Is(err, errOrigin) {
						t.Errorf("Serve got %v", err)
					}
					second.ServeFallback(w, r, weirhttp.FallbackCall{Name: "other", Reason: "down", Began: begin})
					return true
				},
			}}
			first, err := weirhttp.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(7 * time.Second)
				if !weirhttp.MayFallBack(r.Context()) {
					t.Error("MayFallBack is false for a call whose client waits")
				}
				failing(w, r)
			}), o)
			if err != nil {
				t.Fatal(err)
			}
			w := httptest.NewRecorder()
			first.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
			if took := time.Since(begin); took > 10*time.Second {
				t.Errorf("it took %v; want at most the 10 s of the first call", took)
			}
			if w.Code < 503 {
				t.Errorf("status %d; want 503 or 504", w.Code)
			}
		})
	}
}

// What a Fallback serves is not stored, and not for the others that waited, unless it may be.
func TestH40_AFallbackSharesNothingUnlessItMay(t *testing.T) {
	for _, store := range []bool{false, true} {
		cache, err := weirhttp.NewCache(1 << 20)
		if err != nil {
			t.Fatal(err)
		}
		calls := 0
		o := weirhttp.Options{Cache: cache, NoStore: !store, NoCoalescing: !store}
		second, err := weirhttp.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			calls++
			w.Header().Set("Cache-Control", "max-age=600")
			io.WriteString(w, "other")
		}), o)
		if err != nil {
			t.Fatal(err)
		}
		first, err := weirhttp.New(failing, weirhttp.Options{Cache: cache, Gateway: true, Fallback: &weirhttp.Fallback{
			Serve: func(w http.ResponseWriter, r *http.Request, _ error) bool {
				second.ServeFallback(w, r, weirhttp.FallbackCall{Name: "other", Reason: "down", Store: store})
				return true
			},
		}})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			w := httptest.NewRecorder()
			if first.ServeHTTP(w, httptest.NewRequest("GET", "/", nil)); w.Body.String() != "other" {
				t.Errorf("%d %q", w.Code, w.Body)
			}
		}
		want := 3
		if store {
			want = 1
		}
		if calls != want {
			t.Errorf("store %v: %d calls; want %d", store, calls, want)
		}
		if s := first.Stats(); s.Ended() != s.Requests {
			t.Errorf("%d of %d requests are counted", s.Ended(), s.Requests)
		}
	}
}

func TestH40_ARefusalThatIsFull(t *testing.T) {
	for _, tc := range []struct {
		err  error
		full bool
	}{
		{&limit.Error{Reason: limit.QueueFull}, true},
		{&limit.Error{Reason: limit.QueueTimeout}, true},
		{&limit.Error{Reason: limit.QueueFull, OverShare: true}, false},
		{&limit.Error{Reason: limit.TooMany}, false},
		{errOrigin, false},
	} {
		if got := weirhttp.IsFull(tc.err); got != tc.full {
			t.Errorf("IsFull(%v) = %v; want %v", tc.err, got, tc.full)
		}
	}
	if err := (weirhttp.Options{Fallback: &weirhttp.Fallback{}}).Validate(); err == nil {
		t.Error("a Fallback without Serve is valid")
	}
}
