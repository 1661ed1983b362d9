package weirhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/weirhttp"
)

// The defaults, the body and the rates of the tests below are a sixteenth of those of a
// gateway with 24 MB at 8 MB/s, so that the times are the same.
const (
	downScale  = 16
	downSize   = 24_000_000 / downScale
	downOrigin = 8_000_000 / downScale
)

func downOptions(t *testing.T) weirhttp.Options {
	t.Helper()
	cache, err := weirhttp.NewCache(weirhttp.DefaultCacheBytes / downScale)
	if err != nil {
		t.Fatal(err)
	}
	return weirhttp.Options{
		Cache: cache, MaxObject: weirhttp.DefaultMaxObject / downScale, Window: weirhttp.DefaultWindow / downScale,
		Events: weirhttp.EventPolicy{Share: true},
	}
}

// downBody is a body of events, each byte of which depends on its place.
var downBody = func() []byte {
	b := make([]byte, 0, downSize)
	for i := uint32(1); len(b) < downSize-64; i = i*1664525 + 1013904223 {
		b = append(b, "data: "...)
		for x := i; x > 0; x /= 26 {
			b = append(b, 'a'+byte(x%26))
		}
		b = append(b, "\n\n"...)
	}
	return b
}()

// paced sends body at a rate, without a declared length.
func paced(w http.ResponseWriter, r *http.Request, body []byte, rate int) {
	w.(http.Flusher).Flush()
	const step = 4 << 10
	for len(body) > 0 && r.Context().Err() == nil {
		n := min(step, len(body))
		if _, err := w.Write(body[:n]); err != nil {
			return
		}
		body = body[n:]
		time.Sleep(time.Second * time.Duration(n) / time.Duration(rate))
	}
}

// A download is what a client has got of a response that it read at a limited rate.
type download struct {
	body []byte
	err  error
	took time.Duration
}

func (d download) want(t *testing.T, name string, body []byte) {
	t.Helper()
	if d.err != nil || string(d.body) != string(body) {
		t.Errorf("%s got %d bytes of %d (%v), %v", name, len(d.body), len(body), string(d.body) == string(body), d.err)
	}
}

// download reads a response at a rate in bytes per second until it ends, or ctx does.
func (s *site) download(ctx context.Context, rate int, target string, fields ...string) (d download) {
	began := time.Now()
	defer func() { d.took = time.Since(began) }()
	resp, err := s.begin(ctx, target, fields...)
	if err != nil {
		return download{err: err}
	}
	defer resp.Body.Close()
	buf := make([]byte, 4<<10)
	for {
		n, err := resp.Body.Read(buf)
		d.body = append(d.body, buf[:n]...)
		if err == io.EOF {
			return d
		} else if err != nil {
			d.err = err
			return d
		}
		time.Sleep(time.Second * time.Duration(n) / time.Duration(rate))
	}
}

// downloads reads at each of the rates at once.
func (s *site) downloads(rates []int, target string, fields ...string) []download {
	all := make([]download, len(rates))
	var wg sync.WaitGroup
	for i, rate := range rates {
		wg.Go(func() { all[i] = s.download(s.t.Context(), rate, target, fields...) })
	}
	wg.Wait()
	return all
}

var errEnough = errors.New("the client has seen enough")

func TestH4_ClientsOfAnyRateGetTheWholeBody(t *testing.T) {
	rates := []int{100_000_000 / downScale, 5_000_000 / downScale, 3_000_000 / downScale}
	for _, kind := range []string{"application/octet-stream", "text/event-stream"} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := open(t, h1, downOptions(t), func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Type", kind)
					w.Header().Set("Cache-Control", "max-age=600")
					paced(w, r, downBody, downOrigin)
				})
				for wave := range 20 {
					for i, d := range s.downloads(rates, "/a", "Accept", kind) {
						d.want(t, "a client", downBody)
						if t.Failed() {
							t.Fatalf("wave %d, client of %d B/s, after %v", wave, rates[i], d.took)
						}
					}
					time.Sleep(11 * time.Second) // longer than a URL is remembered
				}
				if got := s.handler.Stats().Lagged; got != 0 {
					t.Errorf("Lagged = %d; want 0", got)
				}
			})
		})
	}
}

func TestH4_AClientAtTheMinimumRateDoesNotHoldUpOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, h1, downOptions(t), func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "max-age=600")
			paced(w, r, downBody, downOrigin)
		})
		const fast = 100_000_000 / downScale
		alone := s.download(t.Context(), fast, "/alone")
		alone.want(t, "the client alone", downBody)

		ctx, cancel := context.WithCancelCause(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { s.download(ctx, weirhttp.DefaultMinRate, "/a") })
		synctest.Wait()
		rates := make([]int, 20)
		for i := range rates {
			rates[i] = fast
		}
		for _, d := range s.downloads(rates, "/a") {
			d.want(t, "a fast client", downBody)
			if d.took > alone.took*12/10 {
				t.Errorf("a fast client took %v beside a slow one; alone %v", d.took, alone.took)
			}
		}
		if got := s.handler.Stats().Lagged; got != 0 {
			t.Errorf("Lagged = %d; want 0: the slow client is not cut off", got)
		}
		cancel(errEnough)
		wg.Wait()
	})
}

// A URL is remembered whose body was larger than MaxObject, with or without a declared
// length. Its clients neither share a body nor wait for each other's headers, until one
// of them gets a body that is small.
func TestH7_AURLWithALargeBodyIsRemembered(t *testing.T) {
	for _, declared := range []bool{false, true} {
		t.Run(fmt.Sprint("declared=", declared), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				size := 100_000
				s := open(t, h1, weirhttp.Options{MaxObject: 50_000}, func(w http.ResponseWriter, _ *http.Request) {
					time.Sleep(slow)
					if declared {
						w.Header().Set("Content-Length", strconv.Itoa(size))
					}
					w.Header().Set("Cache-Control", "max-age=1")
					w.(http.Flusher).Flush()
					_, _ = w.Write(make([]byte, size))
				})
				wave := func(name string, calls int64, took time.Duration) {
					t.Helper()
					before := s.calls.Load()
					for _, r := range s.together(5, s.same("/a")) {
						if r.err != nil || len(r.body) != size || r.took > took {
							t.Errorf("%s: %d bytes, %v after %v; want %d after %v", name, len(r.body), r.err, r.took, size, took)
						}
					}
					if got := s.calls.Load() - before; got != calls {
						t.Errorf("%s: %d calls; want %d", name, got, calls)
					}
				}
				if declared {
					wave("first", 5, 2*slow)
				} else {
					wave("first", 1, slow)
				}
				for i := range 20 { // for longer than Relearn
					wave(fmt.Sprint("wave ", i), 5, slow)
					time.Sleep(time.Second)
				}
				if r := s.get("/a"); !strings.Contains(r.header.Get("Cache-Status"), `detail="too big"`) {
					t.Errorf("Cache-Status = %q; want the detail: too big", r.header.Get("Cache-Status"))
				}
				size = 1000
				wave("small", 5, slow)
				time.Sleep(2 * time.Second)
				wave("small again", 1, slow)
			})
		})
	}
}
