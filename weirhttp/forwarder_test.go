package weirhttp_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirhttp"
)

// A wrapper is the ResponseWriter of some middleware between Handler and forwarder.
type wrapper struct{ http.ResponseWriter }

func (w wrapper) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// The details that a forwarder knows of a failure determine the status and
// Proxy-Status, even through the middleware in between.
func TestH21_ForwardersSayHowACallFailed(t *testing.T) {
	refused := errors.New("refused")
	for _, c := range []struct {
		err    error
		status int
		proxy  string
	}{
		{refused, http.StatusBadGateway, "error=http_protocol_error"},
		{&weirhttp.ForwardError{Err: refused, Unreachable: true}, http.StatusBadGateway, "error=destination_unavailable"},
		{&weirhttp.ForwardError{Err: context.DeadlineExceeded, Unreachable: true}, http.StatusGatewayTimeout, "error=connection_timeout"},
		{&weirhttp.ForwardError{Err: refused, Unreachable: true, ProxyStatus: `tls_protocol_error; details="no TLS"`}, http.StatusBadGateway, `error=tls_protocol_error; details="no TLS"`},
	} {
		for _, method := range []string{http.MethodGet, http.MethodDelete} { // on a flight, and bypassing the cache
			h, err := weirhttp.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				weirhttp.SinkOf(wrapper{wrapper{w}}).Fail(c.err)
			}), weirhttp.Options{Gateway: true})
			if err != nil {
				t.Fatal(err)
			}
			got := httptest.NewRecorder()
			h.ServeHTTP(got, httptest.NewRequest(method, "http://h.test/", nil))
			if proxy := got.Header().Get("Proxy-Status"); got.Code != c.status || !strings.Contains(proxy, c.proxy) {
				t.Errorf("%s, Fail(%v) = %d, Proxy-Status %q; want %d, %q", method, c.err, got.Code, proxy, c.status, c.proxy)
			}
		}
	}
	if sink := weirhttp.SinkOf(wrapper{httptest.NewRecorder()}); sink != nil {
		t.Errorf("SinkOf without a Handler = %v; want nil", sink)
	}
}

func TestH24_ForwardersLearnWhichBodyIsRead(t *testing.T) {
	var read []bool
	h, err := weirhttp.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		read = append(read, weirhttp.BodyIsRead(r))
	}), weirhttp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{10, weirhttp.DefaultReadAhead + 1} {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "http://h.test/", strings.NewReader(strings.Repeat("x", size))))
	}
	if len(read) != 2 || !read[0] || read[1] {
		t.Errorf("BodyIsRead of a small body and a large one = %v; want true, false", read)
	}
}

// An idleClient is a client that reads nothing of a response until it is cut off.
type idleClient struct {
	*httptest.ResponseRecorder
	cut chan struct{}
}

func (s idleClient) Write([]byte) (int, error) {
	<-s.cut
	return 0, errors.New("cut")
}

func (s idleClient) SetWriteDeadline(time.Time) error {
	close(s.cut)
	return nil
}

// One of two permits may be blocked, whichever of the Handlers that share the limiter
// hold them. Because of the third request, one of the slow clients is cut off.
func TestH24_SharedLimiterBoundsBlockedClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 2, Queue: 10})
		if err != nil {
			t.Fatal(err)
		}
		shared := weirhttp.NewSharedLimiter(c, 0.5)
		handler := func() http.Handler {
			h, err := weirhttp.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/slow" {
					w.Write(make([]byte, 100))
				}
			}), weirhttp.Options{Limiter: shared})
			if err != nil {
				t.Fatal(err)
			}
			return h
		}
		slow := make([]idleClient, 2)
		for i := range slow {
			slow[i] = idleClient{httptest.NewRecorder(), make(chan struct{})}
			go func(h http.Handler) {
				defer func() { recover() }() // http.ErrAbortHandler
				h.ServeHTTP(slow[i], httptest.NewRequest(http.MethodPost, "http://h.test/slow", nil))
			}(handler())
			synctest.Wait()
		}
		if n := shared.Blocked(); n != 2 {
			t.Fatalf("Blocked = %d; want 2", n)
		}
		got := httptest.NewRecorder()
		began := time.Now()
		handler().ServeHTTP(got, httptest.NewRequest(http.MethodPost, "http://h.test/", nil))
		if took := time.Since(began); got.Code != http.StatusOK || took > time.Second || shared.Blocked() != 1 {
			t.Errorf("the third request = %d after %v, Blocked = %d; want 200 soon, and 1", got.Code, took, shared.Blocked())
		}
		time.Sleep(time.Minute) // the other one is cut off for its rate
	})
}
