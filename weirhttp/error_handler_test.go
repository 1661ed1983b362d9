package weirhttp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirhttp"
)

// Each response that a Handler generates itself goes through its ErrorHandler, with
// the status and fields of the table, and is not stored.
func TestH21_AnErrorHandlerWritesEveryErrorResponse(t *testing.T) {
	none := limiterFunc(func(context.Context) (limit.Permit, error) {
		return limit.Permit{}, &limit.Error{Reason: limit.QueueFull, RetryAfter: 2 * time.Second}
	})
	clients, err := weirhttp.NewClientLimiter(weirhttp.ClientLimiterOptions{Rate: 1, Per: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	_ = clients.Admit(httptest.NewRequest("GET", "/", nil), nil) // the only one per hour
	fails := func(err error) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { weirhttp.SinkOf(w).Fail(err) }
	}
	for _, row := range []struct {
		name   string
		o      weirhttp.Options
		next   http.HandlerFunc
		status int
		retry  string
		is     error
	}{
		{"limit", weirhttp.Options{Limiter: none}, http.NotFound, 503, "2", limit.ErrLimited},
		{"client limit", weirhttp.Options{ClientLimiter: clients}, http.NotFound, 429, "3600", limit.ErrLimited},
		{"failure", weirhttp.Options{Gateway: true}, fails(errors.New("secret")), 502, "", nil},
		{"observe", weirhttp.Options{Observe: true, Gateway: true}, fails(errors.New("secret")), 502, "", nil},
		{"panic", weirhttp.Options{}, func(http.ResponseWriter, *http.Request) { panic("secret") }, 500, "", nil},
	} {
		for _, method := range []string{"GET", "POST", "HEAD"} {
			calls := 0
			o := row.o
			o.ErrorHandler = func(w http.ResponseWriter, r *http.Request, e weirhttp.ErrorResponse) {
				calls++
				if e.Status != row.status || e.Err == nil || row.is != nil && !errors.Is(e.Err, row.is) || strings.Contains(e.Text, "secret") {
					t.Errorf("%s %s: %+v; want status %d, %v", method, row.name, e, row.status, row.is)
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(e.Status)
				_, _ = fmt.Fprintf(w, `{"status": %d}`, e.Status)
			}
			h, err := weirhttp.New(row.next, o)
			if err != nil {
				t.Fatal(err)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(method, "/", nil))
			want := fmt.Sprintf(`{"status": %d}`, row.status)
			got := w.Header()
			if calls != 1 || w.Code != row.status || w.Body.String() != want || got.Get("Cache-Control") != "no-store" ||
				got.Get("Retry-After") != row.retry || got.Get("Content-Type") != "application/json" || got.Get("Content-Length") != "" {
				t.Errorf("%s %s: %d calls, %d %q with %v; want one, %q", method, row.name, calls, w.Code, w.Body, got, want)
			}
			if err := h.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
}

// An ErrorHandler that panics holds nothing that others need.
func TestH21_AnErrorHandlerThatPanicsTakesNothingAlong(t *testing.T) {
	c, err := limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 1, Queue: -1})
	if err != nil {
		t.Fatal(err)
	}
	h, err := weirhttp.New(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		weirhttp.SinkOf(w).Fail(errors.New("no"))
	}), weirhttp.Options{Limiter: c, ErrorHandler: func(http.ResponseWriter, *http.Request, weirhttp.ErrorResponse) { panic("handler") }})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		func() {
			defer func() { _ = recover() }()
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
			t.Error("no panic")
		}()
	}
	if err := h.Close(t.Context()); err != nil || c.Stats().InUse != 0 || h.Stats().InFlight != 0 || h.Stats().Failed != 3 {
		t.Errorf("Close = %v, %+v, %+v; want nothing in use, and three failures", err, c.Stats(), h.Stats())
	}
}

// A wrapped hides the methods of its ResponseWriter.
type wrapped struct{ http.ResponseWriter }

func (w wrapped) Unwrap() http.ResponseWriter { return w.ResponseWriter }

type receipts struct {
	http.ResponseWriter
	all []weirhttp.Receipt
}

func (r *receipts) SetReceipt(one weirhttp.Receipt) { r.all = append(r.all, one) }

// A wrapper that does not know Receipts does not hide the ReceiptWriter that it
// wraps.
func TestH21_ReceiptsPassWrappers(t *testing.T) {
	h, err := weirhttp.New(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "max-age=60")
	}), weirhttp.Options{Route: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(context.Background())
	for _, want := range []weirhttp.Outcome{weirhttp.OutcomeMiss, weirhttp.OutcomeHit} {
		noted := &receipts{ResponseWriter: httptest.NewRecorder()}
		h.ServeHTTP(wrapped{wrapped{noted}}, httptest.NewRequest("GET", "http://shop.example/", nil))
		if n := len(noted.all); n == 0 || noted.all[n-1].Outcome != want || noted.all[n-1].Route != "shop" {
			t.Errorf("Receipts = %+v; want %v, with the route", noted.all, want)
		}
	}
	weirhttp.SetReceipt(httptest.NewRecorder(), weirhttp.Receipt{}) // no ReceiptWriter takes it
}

// Handlers of one Middleware share a Cache, and are closed with it.
func TestMiddleware(t *testing.T) {
	m := fleet.NewMemory(fleet.MemoryOptions{})
	defer m.Close(context.Background())
	mw, err := weirhttp.NewMiddleware(weirhttp.Options{Fleet: weirhttp.FleetOptions{Config: fleet.Config{Tier: m, Namespace: "shop"}}})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	calls := 0
	for _, path := range []string{"/a", "/b"} {
		mux.Handle(path, mw.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			calls++
			w.Header().Set("Cache-Control", "max-age=60")
		})))
	}
	for range 2 {
		for _, path := range []string{"/a", "/b"} {
			mux.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", path, nil))
		}
	}
	all := mw.Handlers()
	if calls != 2 || len(all) != 2 || all[0].Stats().Hits != 1 || all[1].Stats().Hits != 1 {
		t.Errorf("%d calls, %d Handlers; want two, with a hit each", calls, len(all))
	}
	if err := mw.Drain(t.Context()); err != nil {
		t.Errorf("Drain = %v", err)
	}
	for range 2 {
		if err := mw.Close(t.Context()); err != nil {
			t.Errorf("Close = %v", err)
		}
	}
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest("GET", "/a?new", nil))
	if w.Code != 503 {
		t.Errorf("a miss after Close = %d; want 503", w.Code)
	}
	var e *weirhttp.OptionError
	if _, err := weirhttp.NewMiddleware(weirhttp.Options{MaxObject: -1}); !errors.As(err, &e) {
		t.Errorf("NewMiddleware = %v; want an OptionError", err)
	}
}
