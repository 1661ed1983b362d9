package gateway_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weir-go/weir/gateway"
)

// A worker is an origin whose calls last until the test ends them, whether or not their
// clients are still there. With notices, a call ends when its client leaves.
type worker struct {
	*httptest.Server
	running, most, calls atomic.Int64
	ends                 chan struct{}
	notices              bool
}

func (o *worker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	o.calls.Add(1)
	n := o.running.Add(1)
	for old := o.most.Load(); n > old && !o.most.CompareAndSwap(old, n); old = o.most.Load() {
	}
	defer o.running.Add(-1)
	left := make(<-chan struct{})
	if o.notices {
		left = r.Context().Done()
	}
	select {
	case <-o.ends:
	case <-left:
	}
	_, _ = io.WriteString(w, "done")
}

// newWorker starts a worker that speaks HTTP/1.1 (http, https) or HTTP/2 without TLS (h2c).
func newWorker(t *testing.T, scheme string, notices bool) (*worker, gateway.Upstream) {
	o := &worker{ends: make(chan struct{}), notices: notices}
	o.Server = httptest.NewUnstartedServer(o)
	u := gateway.Upstream{Name: "main", Concurrency: 2}
	switch scheme {
	case "https":
		o.StartTLS()
		roots := x509.NewCertPool()
		roots.AddCert(o.Certificate())
		u.TLS = &tls.Config{RootCAs: roots}
		u.Servers = []string{o.URL}
	case "h2c":
		o.Config.Protocols = new(http.Protocols)
		o.Config.Protocols.SetUnencryptedHTTP2(true)
		o.Start()
		u.Servers = []string{"h2c" + strings.TrimPrefix(o.URL, "http")}
	default:
		o.Start()
		u.Servers = []string{o.URL}
	}
	t.Cleanup(func() {
		close(o.ends)
		o.Close()
	})
	return o, u
}

// leave sends n requests whose clients leave once the origin works on all of them.
func (s *site) leave(o *worker, n int, method string) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	before := o.calls.Load()
	ended := make(chan struct{}, n)
	for i := range n {
		var body io.Reader
		if method == http.MethodPost {
			body = strings.NewReader("body")
		}
		r := s.request(method, "/"+method+string(rune('a'+i)), body).WithContext(ctx)
		go func() {
			s.do(r)
			ended <- struct{}{}
		}()
	}
	s.until("the origin works", func() bool { return o.calls.Load() == before+int64(n) })
	cancel()
	for range n {
		<-ended
	}
}

func (s *site) abandoned() int {
	n := 0
	for _, r := range s.g.Stats().Routes {
		n += r.AbandonedRunning
	}
	return n
}

// The limit on calls counts what an origin does. One that does not notice that clients
// leave works on, so their permits are held until it ends.
func TestH14_APermitEndsWithTheWorkOfTheOrigin(t *testing.T) {
	for _, scheme := range []string{"http", "https"} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			t.Run(scheme+" "+method, func(t *testing.T) {
				o, u := newWorker(t, scheme, false)
				s := open(t, config(u))
				s.leave(o, 2, method)
				s.until("both are known to run", func() bool { return s.abandoned() == 2 })
				next := make(chan reply)
				go func() { next <- s.get("/next") }()
				s.until("the next one waits", func() bool { return s.g.Stats().Upstreams["main"].Limit.Queued == 1 })
				o.ends <- struct{}{}
				s.until("the next one is there", func() bool { return o.calls.Load() == 3 })
				if n := s.abandoned(); n != 1 {
					t.Errorf("%d abandoned calls run; want 1", n)
				}
				o.ends <- struct{}{}
				o.ends <- struct{}{}
				if got := <-next; got.status != 200 || got.body != "done" {
					t.Errorf("the next one got %d %q", got.status, got.body)
				}
				s.until("nothing runs", func() bool { return s.abandoned() == 0 && s.g.Stats().Upstreams["main"].Limit.InUse == 0 })
				if n := o.most.Load(); n != 2 {
					t.Errorf("%d calls at once; want 2", n)
				}
			})
		}
	}
}

// An origin that notices loses nothing: it closes the connection when it has ended.
func TestH14_APermitEndsWithAnOriginThatNotices(t *testing.T) {
	for _, scheme := range []string{"http", "https"} {
		t.Run(scheme, func(t *testing.T) {
			o, u := newWorker(t, scheme, true)
			s := open(t, config(u))
			for range 5 {
				s.leave(o, 2, http.MethodGet)
				s.until("it has ended", func() bool { return s.g.Stats().Upstreams["main"].Limit.InUse == 0 && o.running.Load() == 0 })
			}
			if n := o.most.Load(); n != 2 {
				t.Errorf("%d calls at once; want 2", n)
			}
		})
	}
}

// Over HTTP/2 the end of the origin's work cannot be seen. The permit is held for as long
// as calls of the route take; here, where none has ended, that is the time-out. The
// estimate is in TestH14_BehindATransportAPermitIsHeldForAsLongAsCallsTake.
func TestH14_OverHTTP2APermitIsHeldForAsLongAsCallsTake(t *testing.T) {
	o, u := newWorker(t, "h2c", false)
	s := open(t, config(u))
	s.leave(o, 2, http.MethodGet)
	s.until("both count as running", func() bool { return s.abandoned() == 2 })
	if n := s.g.Stats().Upstreams["main"].Limit.InUse; n != 2 {
		t.Errorf("%d permits in use; want 2", n)
	}
}

// Without a limit no permit waits for the origin, and no connection is kept for it: their
// number would have no bound.
func TestH14_WithoutALimitNothingIsKeptForTheOrigin(t *testing.T) {
	for _, scheme := range []string{"http", "h2c"} {
		t.Run(scheme, func(t *testing.T) {
			o, u := newWorker(t, scheme, false)
			u.Concurrency = -1
			s := open(t, config(u))
			s.leave(o, 2, http.MethodGet)
			s.until("both calls have ended here", func() bool { return s.stats().InFlight == 0 && s.stats().Flights == 0 })
			if n := s.abandoned(); n != 0 || o.running.Load() != 2 {
				t.Errorf("%d count as running, and %d run; want 0 and 2", n, o.running.Load())
			}
		})
	}
}

// An operator who knows that the origin stops can say it.
func TestH14_ReleaseAbandoned(t *testing.T) {
	for _, scheme := range []string{"http", "h2c"} {
		t.Run(scheme, func(t *testing.T) {
			o, u := newWorker(t, scheme, false)
			u.ReleaseAbandoned = true
			s := open(t, config(u))
			s.leave(o, 2, http.MethodGet)
			s.until("the permits are back", func() bool { return s.g.Stats().Upstreams["main"].Limit.InUse == 0 })
			if n := s.abandoned(); n != 0 || o.running.Load() != 2 {
				t.Errorf("%d count as running, and %d run; want 0 and 2", n, o.running.Load())
			}
		})
	}
}
