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
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limit"
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

// laggingOptions have memory for what the window holds, and little for slow clients.
func laggingOptions(t *testing.T) weirhttp.Options {
	t.Helper()
	cache, err := weirhttp.NewCache(weirhttp.MinCacheBytes)
	if err != nil {
		t.Fatal(err)
	}
	return weirhttp.Options{Cache: cache, MaxObject: 64 << 10, Window: 64 << 10}
}

// lags has a fast and a slow client download /a at the same time.
func (s *site) lags(fields ...string) (fast, slow download) {
	all := s.downloads([]int{100_000_000 / downScale, 3_000_000 / downScale}, "/a", fields...)
	return all[0], all[1]
}

// Without memory for what it has not read, a client that falls behind continues through
// a separate call for the rest.
func TestH4_AClientThatFallsBehindContinuesWithASeparateCall(t *testing.T) {
	modified := time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC).Format(http.TimeFormat)
	for _, test := range []struct {
		name             string
		validator, value string
		ranges           bool
	}{
		{"a range", "Etag", `"1"`, true},
		{"a range by date", "Last-Modified", modified, true},
		{"the whole body, if there are no ranges", "Etag", `"1"`, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := open(t, h1, laggingOptions(t), func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Cache-Control", "max-age=600")
					w.Header().Set("Date", time.Now().UTC().Format(http.TimeFormat))
					w.Header().Set(test.validator, test.value)
					body := downBody
					if from, ok := wantsRest(t, r, test.value); ok && test.ranges {
						w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(body)-1, len(body)))
						w.WriteHeader(http.StatusPartialContent)
						body = body[from:]
					}
					paced(w, r, body, downOrigin)
				})
				fast, slow := s.lags()
				fast.want(t, "the fast client", downBody)
				slow.want(t, "the slow client", downBody)
				s.wantCalls(2)
				synctest.Wait()
				if got := s.handler.Stats(); got.Resumed != 1 || got.Lagged != 0 || got.InFlight != 0 || got.Broken != 0 || got.Joined != 1 || got.Missed != 1 {
					t.Errorf("Resumed, Lagged, InFlight, Broken, Joined, Missed = %d, %d, %d, %d, %d, %d; want 1, 0, 0, 0, 1, 1",
						got.Resumed, got.Lagged, got.InFlight, got.Broken, got.Joined, got.Missed)
				}
			})
		})
	}
}

// wantsRest returns where the range begins that r asks for, if it asks for one.
func wantsRest(t *testing.T, r *http.Request, validator string) (from int, ok bool) {
	value := r.Header.Get("Range")
	if value == "" {
		return 0, false
	}
	if _, err := fmt.Sscanf(value, "bytes=%d-", &from); err != nil || r.Header.Get("If-Range") != validator {
		t.Errorf("Range %q, If-Range %q; want one with If-Range %q", value, r.Header.Get("If-Range"), validator)
	}
	return from, true
}

// cutOffs counts the events about clients that were cut off because they fell behind.
type cutOffs struct {
	weirhttp.NopObserver
	n atomic.Int64
}

func (o *cutOffs) Event(_ context.Context, e weirhttp.Event) {
	if e.Kind == weirhttp.EventLagged && e.Request != nil && e.Err != nil {
		o.n.Add(1)
	}
}

// A body is never continued with bytes that may belong to another one. Then the client
// that fell behind is cut off, and the others get everything.
func TestH5_NoBodyIsContinuedWithAnother(t *testing.T) {
	part := func(w http.ResponseWriter, from, to, total int, tag string) {
		w.Header().Set("Etag", tag)
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to, total))
		w.WriteHeader(http.StatusPartialContent)
		if to < len(downBody) {
			_, _ = w.Write(downBody[from : to+1])
		}
	}
	last := len(downBody) - 1
	for _, test := range []struct {
		name   string
		fields []string // of the requests
		tag    string   // of the shared response
		calls  int64
		rest   func(w http.ResponseWriter, from int)
	}{
		{"no validator", nil, "", 1, nil},
		{"a weak one", nil, `W/"1"`, 1, nil},
		{"a signature that may cover the range", []string{"X-Signature", "abc"}, `"1"`, 1, nil},
		{"another version", nil, `"1"`, 2, func(w http.ResponseWriter, _ int) {
			w.Header().Set("Etag", `"2"`)
			_, _ = w.Write(downBody)
		}},
		{"a part of another version", nil, `"1"`, 2, func(w http.ResponseWriter, from int) { part(w, from, last, last+1, `"2"`) }},
		{"a part without its validator", nil, `"1"`, 2, func(w http.ResponseWriter, from int) {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, last, last+1))
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write(downBody[from:])
		}},
		{"another part", nil, `"1"`, 2, func(w http.ResponseWriter, from int) { part(w, from+1, last, last+1, `"1"`) }},
		{"a shorter part", nil, `"1"`, 2, func(w http.ResponseWriter, from int) { part(w, from, last-1, last+1, `"1"`) }},
		{"a coded body", nil, `"1"`, 2, func(w http.ResponseWriter, from int) {
			w.Header().Set("Content-Encoding", "gzip")
			part(w, from, last, last+1, `"1"`)
		}},
		{"the whole body, with fewer bytes", nil, `"1"`, 2, func(w http.ResponseWriter, from int) {
			w.Header().Set("Etag", `"1"`)
			_, _ = w.Write(downBody[:from/2])
		}},
		{"an error", nil, `"1"`, 2, func(w http.ResponseWriter, _ int) { w.WriteHeader(http.StatusBadGateway) }},
		{"not satisfiable", nil, `"1"`, 2, func(w http.ResponseWriter, _ int) { w.WriteHeader(http.StatusRequestedRangeNotSatisfiable) }},
		{"a part that breaks off", nil, `"1"`, 2, func(w http.ResponseWriter, from int) {
			part(w, from, last-1, last, `"1"`)
			panic(http.ErrAbortHandler)
		}},
		{"no response", nil, `"1"`, 2, func(http.ResponseWriter, int) { panic(http.ErrAbortHandler) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := laggingOptions(t)
				var events cutOffs
				o.Observer = &events
				s := open(t, h1, o, func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Cache-Control", "max-age=600")
					if from, ok := wantsRest(t, r, test.tag); ok {
						test.rest(w, from)
						return
					}
					if test.tag != "" {
						w.Header().Set("Etag", test.tag)
					}
					paced(w, r, downBody, downOrigin)
				})
				fast, slow := s.lags(test.fields...)
				fast.want(t, "the fast client", downBody)
				if slow.err == nil || !strings.HasPrefix(string(downBody), string(slow.body)) {
					t.Errorf("the slow client got %d bytes, %v; want an error after a part of the body", len(slow.body), slow.err)
				}
				s.wantCalls(test.calls)
				synctest.Wait()
				if got := s.handler.Stats(); got.Lagged != 1 || got.Resumed != 0 || got.InFlight != 0 || got.LeftMidway != 0 {
					t.Errorf("Lagged, Resumed, InFlight, LeftMidway = %d, %d, %d, %d; want 1, 0, 0, 0", got.Lagged, got.Resumed, got.InFlight, got.LeftMidway)
				}
				if got := events.n.Load(); got != 1 {
					t.Errorf("%d events; want one for the client that was cut off", got)
				}
				if got := o.Cache.Stats().Reserved; got != 0 {
					t.Errorf("Reserved = %d; want 0", got)
				}
			})
		})
	}
}

// The separate call waits for admission like any other.
func TestH14_TheRestOfABodyIsAdmitted(t *testing.T) {
	for _, queue := range []int{-1, 10} {
		t.Run(fmt.Sprint("queue=", queue), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := laggingOptions(t)
				var err error
				if o.Limiter, err = limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 1, Queue: queue}); err != nil {
					t.Fatal(err)
				}
				s := open(t, h1, o, func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Etag", `"1"`)
					w.Header().Set("Cache-Control", "max-age=600")
					paced(w, r, downBody, downOrigin) // without ranges
				})
				fast, slow := s.lags()
				fast.want(t, "the fast client", downBody)
				if queue < 0 {
					if got := s.handler.Stats(); slow.err == nil || got.Lagged != 1 || got.Calls != 1 {
						t.Errorf("%d bytes, %v; Lagged, Calls = %d, %d; want an error, 1, 1", len(slow.body), slow.err, got.Lagged, got.Calls)
					}
					return
				}
				slow.want(t, "the slow client", downBody)
				s.wantCalls(2)
				if got := s.peak.Load(); got != 1 {
					t.Errorf("%d calls at the same time; want 1", got)
				}
			})
		})
	}
}
