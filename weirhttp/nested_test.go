package weirhttp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirhttp"
)

// B6: a Handler and the Guard behind it share one limiter, whether requests share a
// call, make their own, or bypass the cache. The same is true of a Guard whose load
// makes requests through a Transport.
func TestB6_HandlerAndGuardShareTheirPermit(t *testing.T) {
	for _, method := range []string{"GET", "POST"} {
		for _, alone := range []bool{false, true} {
			t.Run(fmt.Sprint(method, "/alone=", alone), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					one, err := limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 1, MaxWait: -1})
					if err != nil {
						t.Fatal(err)
					}
					g := weir.Must(weir.New(func(context.Context, string) (string, error) {
						time.Sleep(slow)
						return "x", nil
					}, weir.Options{Limiter: one}))
					defer g.Close(context.Background())
					s := open(t, h1, weirhttp.Options{Limiter: one, NoCoalescing: alone}, func(w http.ResponseWriter, r *http.Request) {
						v, err := g.Get(r.Context(), r.URL.Path)
						if err != nil {
							v = err.Error()
						}
						_, _ = io.WriteString(w, v)
					})
					for _, r := range s.together(6, func(i int) *http.Request {
						return s.request(t.Context(), method, fmt.Sprint("/", i%4))
					}) {
						r.want(t, 200, "x")
					}
					synctest.Wait()
					if st := one.Stats(); st.InUse+st.Queued > 0 {
						t.Errorf("%d permits in use, %d queued; want none", st.InUse, st.Queued)
					}
				})
			})
		}
	}
}

// B6: see TestB6_HandlerAndGuardShareTheirPermit.
func TestB6_GuardAndTransportShareTheirPermit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, err := limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 1, MaxWait: -1})
		if err != nil {
			t.Fatal(err)
		}
		tr, err := weirhttp.NewTransport(roundTrip(func(r *http.Request) (*http.Response, error) {
			time.Sleep(slow)
			return plain(r, 200, "x"), nil
		}), weirhttp.Options{Limiter: one})
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: tr}
		g := weir.Must(weir.New(func(ctx context.Context, key string) (string, error) {
			r, err := http.NewRequestWithContext(ctx, "GET", "http://shop.example/"+key[:1], nil)
			if err != nil {
				return "", err
			}
			resp, err := client.Do(r)
			if err != nil {
				return "", err
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			return string(body), err
		}, weir.Options{Limiter: one}))
		done := make(chan struct{})
		const calls = 6
		for i := range calls {
			go func() {
				if v, err := g.Get(t.Context(), fmt.Sprint(i%4, i)); v != "x" || err != nil {
					t.Errorf("Get = %q, %v; want x", v, err)
				}
				done <- struct{}{}
			}()
		}
		for range calls {
			select {
			case <-done:
			case <-time.After(time.Hour):
				t.Fatal("no progress within an hour")
			}
		}
		if err := g.Close(t.Context()); err != nil {
			t.Errorf("Close = %v; want nil", err)
		}
		synctest.Wait()
		if st := one.Stats(); st.InUse+st.Queued > 0 {
			t.Errorf("%d permits in use, %d queued; want none", st.InUse, st.Queued)
		}
	})
}

// H6: a queued flight has the highest priority of the requests that are still
// waiting.
func TestH6_AQueuedFlightLosesThePriorityOfOneWhoLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := permits(t, limit.ConcurrencyOptions{Limit: 1})
		var order []string
		o := weirhttp.Options{Limiter: one, Priority: func(r *http.Request) limit.Priority {
			if r.Header.Get("Class") == "high" {
				return limit.High
			}
			return limit.Low
		}}
		s := open(t, h1, o, func(w http.ResponseWriter, r *http.Request) {
			order = append(order, r.URL.Path)
			time.Sleep(slow)
			w.Header().Set("Cache-Control", "max-age=60")
		})
		for _, path := range []string{"/1", "/2", "/3"} {
			go s.get(path)
			time.Sleep(time.Millisecond)
		}
		ctx, hangUp := context.WithTimeout(t.Context(), slow/2)
		defer hangUp()
		s.do(s.request(ctx, "GET", "/3", "Class", "high"))
		time.Sleep(10 * slow)
		synctest.Wait()
		if got := strings.Join(order, " "); got != "/1 /2 /3" {
			t.Errorf("the calls ran as %s; want /1 /2 /3", got)
		}
	})
}
