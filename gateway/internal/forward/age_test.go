package forward_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/gateway/internal/forward"
)

// A connection that is too old takes no new requests, however busy it is.
func TestH37_AnOldConnectionIsNotUsedAgain(t *testing.T) {
	for _, way := range []struct {
		name, scheme string
		netHTTP      bool
	}{{"direct", "http", false}, {"net/http", "http", true}, {"HTTP/2", "h2c", false}} {
		t.Run(way.name, func(t *testing.T) {
			for _, age := range []time.Duration{time.Nanosecond, time.Hour} {
				ln, opened := loopback(t), atomic.Int64{}
				protocols := new(http.Protocols)
				protocols.SetHTTP1(true)
				protocols.SetUnencryptedHTTP2(true)
				srv := &http.Server{Protocols: protocols, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					b, _ := io.ReadAll(r.Body)
					if way.netHTTP && r.Close != (age < time.Second) {
						t.Errorf("%s has Connection: close: %v, with an age of %v", r.Method, r.Close, age)
					}
					fmt.Fprintf(w, "%d", len(b))
				}), ConnState: func(_ net.Conn, s http.ConnState) {
					if s == http.StateNew {
						opened.Add(1)
					}
				}}
				go srv.Serve(ln)
				defer srv.Close()
				tr := (&origin{link: ln}).transport(t, way.scheme, func(o *forward.Options) { o.NetHTTP, o.MaxConnAge = way.netHTTP, age })
				for range 5 {
					if got, err := get(tr); got != "0" || err != nil {
						t.Fatalf("GET = %q, %v; want 0", got, err)
					}
					r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://client.test/", strings.NewReader(strings.Repeat("x", 100_000)))
					resp, err := tr.RoundTrip(r)
					if err != nil {
						t.Fatalf("POST = %v", err)
					}
					if b, err := io.ReadAll(resp.Body); string(b) != "100000" || err != nil {
						t.Errorf("POST = %q, %v; want 100000", b, err)
					}
					resp.Body.Close()
				}
				if n := opened.Load(); age < time.Second && n < 5 || age > time.Second && n > 3 {
					t.Errorf("with an age of %v, 10 requests over %d connections; want many with the short one, and few with the long one", age, n)
				}
			}
		})
	}
}

// The age ends no call. The connection is closed after the one that it has, and an idle one at its age.
func TestH37_TheAgeEndsNoCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opened := 0
		o := serve(t, pipes(t), func(c net.Conn, br *bufio.Reader) {
			opened++
			for {
				if _, err := readHead(br); err != nil {
					return
				}
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no")
				time.Sleep(10 * time.Minute)
				io.WriteString(c, "k")
			}
		})
		closed := 0
		tr := o.transport(t, "http", func(opts *forward.Options) {
			opts.MaxConnAge, opts.IdleConn = 5*time.Minute, time.Hour
			opts.Dial = watched(opts.Dial, func() { closed++ })
		})
		for i := range 2 {
			if got, err := get(tr); got != "ok" || err != nil {
				t.Fatalf("a response that takes longer than the age = %q, %v; want ok", got, err)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			if opened != i+1 || closed != i+1 {
				t.Errorf("%d connections opened, %d closed; want %d", opened, closed, i+1)
			}
		}
		tr.Close()
		o.Close()
	})
}

// An idle connection is closed at its age at the latest, and after three quarters of it at the earliest.
func TestH37_AnIdleConnectionEndsAtItsAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := serve(t, pipes(t), answers(ok))
		began, ended := time.Now(), time.Duration(0)
		tr := o.transport(t, "http", func(opts *forward.Options) {
			opts.MaxConnAge, opts.IdleConn = 4*time.Minute, time.Hour
			opts.Dial = watched(opts.Dial, func() { ended = time.Since(began) })
		})
		if got, err := get(tr); got != "ok" || err != nil {
			t.Fatalf("GET = %q, %v", got, err)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if ended < 3*time.Minute || ended > 4*time.Minute {
			t.Errorf("the connection was closed after %v; want 3 to 4 minutes", ended)
		}
		tr.Close()
		o.Close()
	})
}
