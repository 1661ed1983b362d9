package weirhttp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/weirhttp"
)

// A client that knows where a response ends does not wait for the end of the message, and
// leaves: the official libraries of model APIs at the terminal event, others at the
// Content-Length. The response is stored all the same, also if its request is alone. An
// origin that does not end the message in a second loses the call; what it has sent is
// whole if it has the length.
func TestH6_AClientThatLeavesAtTheLastByteLeavesAStoredResponse(t *testing.T) {
	terminal := tokens[len(tokens)-1]
	for _, test := range []struct {
		what   string
		length string // Content-Length; "": an event stream
		body   string // until the client leaves
		end    time.Duration
		more   string // sent before the end
		stored bool
	}{
		{what: "a terminal event", body: terminal, end: 500 * time.Millisecond, stored: true},
		{what: "a terminal event, late end", body: terminal, end: 5 * time.Second},
		{what: "a terminal event, then another", body: terminal, more: tokens[0], end: 500 * time.Millisecond},
		{what: "no terminal event", body: tokens[0], more: terminal, end: 500 * time.Millisecond},
		{what: "a length", length: "5", body: "hello", end: 500 * time.Millisecond, stored: true},
		{what: "a length, late end", length: "5", body: "hello", end: 5 * time.Second, stored: true},
		{what: "less than the length", length: "6", body: "hello", more: "!", end: 500 * time.Millisecond},
	} {
		for _, alone := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, alone=%v", test.what, alone), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ended := make(chan time.Duration, 10)
					o := sharedEvents
					o.NoCoalescing = alone
					s := open(t, h1, o, func(w http.ResponseWriter, r *http.Request) {
						began := time.Now()
						defer func() { ended <- time.Since(began) }()
						w.Header().Set("Cache-Control", "max-age=600")
						if w.Header().Set("Content-Type", "text/event-stream"); test.length != "" {
							w.Header().Set("Content-Type", "text/plain")
							w.Header().Set("Content-Length", test.length)
						}
						_, _ = io.WriteString(w, test.body)
						w.(http.Flusher).Flush()
						select {
						case <-time.After(test.end):
						case <-r.Context().Done():
							return
						}
						_, _ = io.WriteString(w, test.more)
					})
					ctx, leave := context.WithCancel(t.Context())
					resp, err := s.client.Do(s.events(ctx, "/a"))
					if err != nil {
						t.Fatal(err)
					}
					if _, err := io.ReadFull(resp.Body, make([]byte, len(test.body))); err != nil {
						t.Fatal(err)
					}
					leave()
					resp.Body.Close()
					s.client.CloseIdleConnections() // it has been read to its end if it has a length
					took := <-ended
					synctest.Wait()
					if most := min(test.end, time.Second); took > most {
						t.Errorf("the call took %v; want at most %v", took, most)
					}
					again := s.do(s.events(t.Context(), "/a"))
					if test.more == "" || test.more == "!" {
						again.want(t, 200, test.body+test.more)
					}
					want := int64(2)
					if test.stored {
						want = 1
					}
					if n := s.calls.Load(); n != want || strings.Contains(again.header.Get("Cache-Status"), "; hit") != test.stored {
						t.Errorf("%d calls, then %v; stored should be %v", n, again.header["Cache-Status"], test.stored)
					}
				})
			})
		}
	}
}

// A client of a Transport that reads as many bytes as it needs, as json.Decoder does, and
// closes the body leaves a stored response as well, whatever the time until the end of the
// message.
func TestH6_ADecoderThatStopsAtTheLastByteLeavesAStoredResponse(t *testing.T) {
	for _, private := range []bool{false, true} {
		for _, end := range []time.Duration{0, 500 * time.Millisecond} {
			t.Run(fmt.Sprintf("private=%v, end after %v", private, end), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					calls := 0
					base := roundTrip(func(r *http.Request) (*http.Response, error) {
						calls++
						const text = `{"a":1}`
						resp := plain(r, 200, "", "Cache-Control", "max-age=60", "Content-Length", "7")
						body, w := io.Pipe()
						context.AfterFunc(r.Context(), func() { w.CloseWithError(context.Cause(r.Context())) })
						go func() {
							_, _ = io.WriteString(w, text)
							time.Sleep(end)
							w.Close()
						}()
						resp.Body, resp.ContentLength = body, int64(len(text))
						return resp, nil
					})
					open := weirhttp.NewTransport
					if private {
						open = weirhttp.NewPrivateTransport
					}
					tr, err := open(base, weirhttp.Options{})
					if err != nil {
						t.Fatal(err)
					}
					defer tr.Close(context.Background())
					for range 3 {
						r, _ := http.NewRequestWithContext(t.Context(), "GET", "http://a.example/", nil)
						resp, err := tr.RoundTrip(r)
						if err != nil {
							t.Fatal(err)
						}
						var got struct{ A int }
						if err := json.NewDecoder(resp.Body).Decode(&got); err != nil || got.A != 1 {
							t.Errorf("got %+v, %v", got, err)
						}
						resp.Body.Close()
						time.Sleep(2 * time.Second)
					}
					if calls != 1 {
						t.Errorf("%d calls; want 1", calls)
					}
				})
			})
		}
	}
}
