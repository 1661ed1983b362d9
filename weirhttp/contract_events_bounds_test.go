package weirhttp_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirhttp"
)

// A stream beyond the object limit goes on to its clients, and is neither joined after
// that nor stored. Buffers count, and are given back (H4).
func TestH33_AStreamLargerThanTheLimit(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			cache, _ := weirhttp.NewCache(4 << 20)
			o := sharedEvents
			o.Cache, o.MaxObject, o.Window = cache, 64<<10, 64<<10
			event := "data: " + strings.Repeat("x", 20<<10) + "\n\n"
			events := []string{event, event, event, event, event, event, event, event, tokens[4]}
			s := open(t, p, o, streaming(events))
			whole := strings.Join(events, "")
			first := s.inBackground(3, func(int) *http.Request { return s.events(t.Context(), "/a") })
			time.Sleep(2*gap + gap/2)
			if got := cache.Stats().Reserved; got < 40<<10 {
				t.Errorf("%d bytes reserved; want at least 40 KiB", got)
			}
			joined := s.inBackground(1, func(int) *http.Request { return s.events(t.Context(), "/a") })
			time.Sleep(3 * gap)
			late := s.inBackground(1, func(int) *http.Request { return s.events(t.Context(), "/a") })
			for _, r := range append(append(first(), joined()...), late()...) {
				r.want(t, 200, whole)
			}
			s.wantCalls(2)
			synctest.Wait()
			if got := cache.Stats(); got.Reserved != 0 || got.Responses != 0 {
				t.Errorf("%d reserved, %d stored; want none", got.Reserved, got.Responses)
			}
		})
	})
}

// A client that does not read is reset once there is no memory to keep for it what it has
// not read; it holds up no other.
func TestH33_ASlowReaderIsResetAndHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := sharedEvents
		o.Cache, _ = weirhttp.NewCache(weirhttp.MinCacheBytes)
		o.MaxObject, o.Window = 64<<10, 64<<10
		var events []string
		for range 40 {
			events = append(events, "data: "+strings.Repeat("x", 20<<10)+"\n\n")
		}
		events = append(events, tokens[4])
		s := open(t, h1, o, streaming(events))
		slow, err := s.client.Do(s.events(t.Context(), "/a"))
		if err != nil {
			t.Fatal(err)
		}
		defer slow.Body.Close()
		began := time.Now()
		s.do(s.events(t.Context(), "/a")).want(t, 200, strings.Join(events, ""))
		if took := time.Since(began); took > 41*gap+3*time.Second {
			t.Errorf("the other client's stream took %v; want about 41 s", took)
		}
		if _, err := io.ReadAll(slow.Body); err == nil {
			t.Error("a client that fell behind the window got a complete response")
		}
		s.wantCalls(1)
	})
}

// A stored stream is replayed at its pace, starting at once, and faster when the
// Handler drains.
func TestH33_TheRecordedPace(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			o := sharedEvents
			o.Events.Replay = weirhttp.ReplayPaced
			s := open(t, p, o, streaming(tokens))
			whole := strings.Join(tokens, "")
			s.do(s.events(t.Context(), "/a")).want(t, 200, whole)
			for range 2 {
				resp, err := s.client.Do(s.events(t.Context(), "/a"))
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				for i, e := range tokens {
					b := make([]byte, len(e))
					if _, err := io.ReadFull(resp.Body, b); err != nil || string(b) != e {
						t.Fatalf("event %d = %q, %v; want %q", i, b, err, e)
					}
					if at := time.Since(began).Round(time.Millisecond); at != time.Duration(i)*gap {
						t.Errorf("event %d was replayed after %v; want %v", i, at, time.Duration(i)*gap)
					}
				}
				if _, err := resp.Body.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
					t.Errorf("after the last event: %v; want the end", err)
				}
				_ = resp.Body.Close()
			}
			s.wantCalls(1)
			drained := s.inBackground(1, func(int) *http.Request { return s.events(t.Context(), "/a") })
			time.Sleep(gap / 2)
			_ = s.handler.Drain(t.Context())
			for _, r := range drained() {
				r.want(t, 200, whole)
				if r.took.Round(time.Millisecond) != gap/2 {
					t.Errorf("a replay took %v although the handler drained after %v", r.took, gap/2)
				}
			}
			if head := s.do(s.request(t.Context(), http.MethodHead, "/a", "Accept", "text/event-stream")); head.status != 200 || head.took != 0 {
				t.Errorf("HEAD = %d after %v; want 200 at once", head.status, head.took)
			}
			s.wantCalls(1)
		})
	})
}

// The instants of a stream are bounded, and its bytes are the same, however many
// events it has.
func TestH33_ThePaceIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache, _ := weirhttp.NewCache(16 << 20)
		o := sharedEvents
		o.Cache, o.Events.Replay = cache, weirhttp.ReplayPaced
		var events []string
		for i := range 5000 {
			events = append(events, fmt.Sprintf("data: %d\n\n", i))
		}
		events = append(events, tokens[4])
		s := open(t, h1, o, streaming(events))
		whole := strings.Join(events, "")
		s.do(s.events(t.Context(), "/a")).want(t, 200, whole)
		if used := cache.Stats().Used; used > int64(len(whole))+8<<10+16<<10 {
			t.Errorf("a stream of %d bytes takes %d", len(whole), used)
		}
		r := s.do(s.events(t.Context(), "/a"))
		r.want(t, 200, whole)
		if d := r.took - 5000*gap; d < -30*gap || d > 0 {
			t.Errorf("the replay took %v; want about %v", r.took, 5000*gap)
		}
		s.wantCalls(1)
	})
}

// A stream may take any time, as long as it is not silent for too long.
func TestH33_IdleNotTotalTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := sharedEvents
		o.HeadTimeout, o.IdleTimeout, o.StreamIdleTimeout = time.Millisecond, time.Millisecond, gap+gap/2
		s := open(t, h1, o, streaming(tokens))
		s.do(s.events(t.Context(), "/a")).want(t, 200, strings.Join(tokens, ""))
		o.StreamIdleTimeout = gap / 2
		s = open(t, h1, o, streaming(tokens))
		for _, r := range s.together(2, func(int) *http.Request { return s.events(t.Context(), "/b") }) {
			if r.err == nil || r.took != gap/2 {
				t.Errorf("a silent stream = %q, %v after %v; want it broken after %v", r.body, r.err, r.took, gap/2)
			}
		}
	})
}

// A running stream takes one permit of Streams, however many clients it has, and
// replays take none (H14).
func TestH33_PermitsAreCountedApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, streams := permits(t, limit.ConcurrencyOptions{Limit: 1, Queue: -1}), permits(t, limit.ConcurrencyOptions{Limit: 10, Queue: -1})
		o := sharedEvents
		o.Limiter, o.Streams = calls, streams
		s := open(t, h1, o, streaming(tokens))
		for i := range 3 {
			replies := s.inBackground(5, func(int) *http.Request { return s.events(t.Context(), fmt.Sprint("/", i)) })
			time.Sleep(gap / 10)
			defer replies()
		}
		if a, b, n := calls.Stats().InUse, streams.Stats().InUse, s.handler.Stats().Streams; a != 0 || b != 3 || n != 3 {
			t.Errorf("3 streams with 15 clients take %d permits for calls and %d for streams, and count as %d; want 0, 3, 3", a, b, n)
		}
		time.Sleep(time.Minute)
		for i := range 3 {
			s.do(s.events(t.Context(), fmt.Sprint("/", i)))
		}
		s.wantCalls(3)
		if n := s.handler.Stats().Streams; n != 0 {
			t.Errorf("Streams = %d; want 0", n)
		}
	})
	// With AsCalls, a running stream is a call: the next one queues until it ends.
	for _, alone := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			o := sharedEvents
			o.Events.AsCalls, o.NoCoalescing = true, alone
			o.Limiter = permits(t, limit.ConcurrencyOptions{Limit: 1, Queue: 10})
			s := open(t, h1, o, streaming(tokens))
			for _, r := range s.together(2, func(i int) *http.Request { return s.events(t.Context(), fmt.Sprint("/", i)) }) {
				r.want(t, 200, strings.Join(tokens, ""))
			}
			if peak := s.peak.Load(); peak != 1 {
				t.Errorf("%d streams ran at once; want 1", peak)
			}
		})
	}
}

// Purges remove stored streams, by URL and by tag, and a running one is not stored
// after a purge (H12).
func TestH33_Purges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache, _ := weirhttp.NewCache(16 << 20)
		o := sharedEvents
		o.Cache = cache
		s := open(t, h1, o, streaming(tokens, "Cache-Tag", "model"))
		get := func() { s.do(s.events(t.Context(), "/a")).want(t, 200, strings.Join(tokens, "")) }
		get()
		if n, err := cache.Invalidate(t.Context(), "http", "shop.example", "/a"); n != 1 || err != nil {
			t.Errorf("Invalidate = %d, %v; want 1", n, err)
		}
		get()
		s.wantCalls(2)
		if err := cache.InvalidateTags(t.Context(), "model"); err != nil {
			t.Error(err)
		}
		running := s.inBackground(1, func(int) *http.Request { return s.events(t.Context(), "/a") })
		time.Sleep(gap + gap/2)
		if err := cache.InvalidateTags(t.Context(), "model"); err != nil {
			t.Error(err)
		}
		for _, r := range running() {
			r.want(t, 200, strings.Join(tokens, ""))
		}
		s.wantCalls(3)
		get()
		s.wantCalls(4)
		get()
		s.wantCalls(4)
	})
}

// A stale stream is served while one call replaces it, and instead of an error (H11).
func TestH33_StaleStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := sharedEvents
		o.Policy.StaleWhileRevalidate, o.Policy.StaleIfError = time.Minute, time.Hour
		o.Gateway = true
		var down atomic.Bool
		s := open(t, h1, o, func(w http.ResponseWriter, r *http.Request) {
			if down.Load() {
				w.WriteHeader(503)
				return
			}
			streaming(tokens)(w, r)
		})
		whole := strings.Join(tokens, "")
		get := func() reply { return s.do(s.events(t.Context(), "/a")) }
		get().want(t, 200, whole)
		time.Sleep(10*time.Minute + 10*time.Second)
		if r := get(); r.body != whole || r.took != 0 {
			t.Errorf("a stale stream = %q after %v; want it whole at once", r.body, r.took)
		}
		time.Sleep(time.Minute)
		get().want(t, 200, whole)
		s.wantCalls(2)
		down.Store(true)
		time.Sleep(30 * time.Minute)
		r := get()
		r.want(t, 200, whole)
		has(t, r, "Cache-Status", "fwd=stale")
	})
}

// Explain and observe mode know shared streams (H21, H22).
func TestH33_ExplainAndObserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, h1, sharedEvents, streaming(tokens))
		explain := func(fields ...string) string {
			return s.handler.Explain(s.events(t.Context(), "/a", fields...)).Answer
		}
		if got := explain(); got != "lead" {
			t.Errorf("before = %q; want lead", got)
		}
		first := s.inBackground(1, func(int) *http.Request { return s.events(t.Context(), "/a") })
		time.Sleep(gap + gap/2)
		if got := explain(); got != "join" {
			t.Errorf("while it runs = %q; want join", got)
		}
		first()
		if got := explain(); got != "hit" {
			t.Errorf("afterwards = %q; want hit", got)
		}
		if got := explain("Last-Event-ID", "3"); got != "pass" {
			t.Errorf("with Last-Event-ID = %q; want pass", got)
		}
		o := sharedEvents
		o.Observe = true
		s = open(t, h1, o, streaming(tokens))
		for range 2 {
			s.together(3, func(int) *http.Request { return s.events(t.Context(), "/a") })
		}
		synctest.Wait()
		s.wantCalls(6)
		if got := s.handler.Stats().Observed; got.Joined != 2 || got.Hits != 3 || got.Differed != 0 || got.Compared != 5 {
			t.Errorf("Observed = %+v; want 2 joined, 3 hits, 5 compared", got)
		}
		s = open(t, h1, o, streaming(tokens[:2])) // broken
		for range 2 {
			s.together(3, func(int) *http.Request { return s.events(t.Context(), "/a") })
		}
		synctest.Wait()
		if got := s.handler.Stats().Observed; got.Hits != 0 {
			t.Errorf("Observed = %+v; want no hits of broken streams", got)
		}
	})
}

func TestH33_ThousandClients(t *testing.T) {
	both(t, func(t *testing.T, p protocol) {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, p, sharedEvents, streaming(tokens))
			whole := strings.Join(tokens, "")
			for _, r := range s.together(1000, func(int) *http.Request { return s.events(t.Context(), "/a") }) {
				r.want(t, 200, whole)
			}
			s.wantCalls(1)
		})
	})
}

// A Transport shares streams between the requests of a program.
func TestH33_Transport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		base := dialled(t, h1, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			calls.Add(1)
			streaming(tokens)(w, r)
		}))
		tr, err := weirhttp.NewTransport(base.Transport, sharedEvents)
		if err != nil {
			t.Fatal(err)
		}
		s := &site{t: t, client: &http.Client{Transport: tr}}
		for range 2 {
			for _, r := range s.together(3, func(int) *http.Request { return s.events(t.Context(), "/a") }) {
				r.want(t, 200, strings.Join(tokens, ""))
			}
		}
		if n := calls.Load(); n != 1 {
			t.Errorf("%d calls; want 1", n)
		}
		_ = tr.Close(t.Context())
	})
}

func TestH33_OptionsAreChecked(t *testing.T) {
	for _, p := range []weirhttp.EventPolicy{
		{TTL: time.Second}, {End: "x"}, {Share: true, TTL: -1}, {Share: true, End: "a\rb"}, {Share: true, EndType: "a\nb"},
		{Share: true, EndType: strings.Repeat("x", 257)}, {Share: true, End: strings.Repeat("x", 1025)}, {Share: true, Replay: 2},
		{Share: true, IncompleteTypes: []string{""}}, {Share: true, IncompleteData: []string{""}}, {Share: true, IncompleteData: make([]string, 17)},
	} {
		err := weirhttp.Options{Events: p}.Validate()
		if err == nil || !strings.Contains(err.Error(), "Events.") {
			t.Errorf("Validate of %.200v = %v; want an error about Events", p, err)
		}
	}
}

// Without a terminal event, a stream is whole if its message is, and stored if it ends
// between two events and has one.
func TestH33_WithoutATerminalEvent(t *testing.T) {
	for stream, calls := range map[string]int64{"data: a\n\n": 1, "data: a\r\n\r\n": 1, "": 2, "data: a\n": 2, "data: a": 2, "event: a\n": 2} {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, h1, weirhttp.Options{Events: weirhttp.EventPolicy{Share: true, TTL: time.Minute}}, streaming([]string{stream}))
			for range 2 {
				s.do(s.events(t.Context(), "/a")).want(t, 200, stream)
			}
			if got := s.calls.Load(); got != calls {
				t.Errorf("%q: %d calls; want %d", stream, got, calls)
			}
		})
	}
}
