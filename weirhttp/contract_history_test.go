package weirhttp_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/histories"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirhttp"
)

// The history test: many clients do random things at random times, and their
// responses are checked against those that they may get. A body describes itself
// completely: "key|variant|user|version|padding|end".

const (
	historyKeys = 5
	historyCap  = 4
)

// A world is one history.
type world struct {
	t    *testing.T
	seed uint64
	// The instances, one or several in a fleet.
	sites  []*site
	caches []*weirhttp.Cache
	late   time.Duration // how long after an acknowledged change the other instances know of it
	loose  bool          // instances may also be cut off from the fleet, so versions are not checked

	mu       sync.Mutex
	rng      *rand.Rand       // guarded by mu
	versions [historyKeys]int // guarded by mu; the current versions at the origin
	failed   uint64           // guarded by mu; responses of the origin with 500 and above, and those that it broke off
	// settled[k] is the version for which it was acknowledged that nothing older is
	// served. Guarded by mu.
	settled [historyKeys]int
}

func (w *world) draw(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rng.IntN(n)
}

// origin has a different response for each key: 0 is shared, 1 varies by Accept, 2 is
// separate for each user, 3 states no freshness, 4 is public.
func (w *world) origin(rw http.ResponseWriter, r *http.Request) {
	k := int(r.URL.Path[1] - '0')
	h := rw.Header()
	if r.Method == http.MethodPost {
		time.Sleep(time.Duration(w.draw(20)) * time.Millisecond)
		w.mu.Lock()
		w.versions[k]++
		w.mu.Unlock()
		time.Sleep(time.Duration(w.draw(20)) * time.Millisecond)
		rw.WriteHeader(http.StatusNoContent)
		return
	}
	time.Sleep(time.Duration(w.draw(30)) * time.Millisecond)
	w.mu.Lock()
	version := w.versions[k]
	w.mu.Unlock()
	control := []string{"max-age=1, stale-while-revalidate=1, stale-if-error=5", "max-age=1", "private", "", "public, max-age=1"}[k]
	if k == 2 && w.draw(2) == 0 {
		control = "max-age=1" // separate for each user because of the credentials
		if r.Header.Get("Cookie") == "" {
			control = "no-store"
		}
	}
	if control != "" {
		h.Set("Cache-Control", control)
	}
	h.Set("Surrogate-Key", fmt.Sprint("t", k))
	tag := fmt.Sprintf(`"%d-%s"`, version, r.Header.Get("Accept"))
	h.Set("Etag", tag)
	if k == 1 {
		h.Set("Vary", "Accept")
	}
	if r.Header.Get("If-None-Match") == tag {
		rw.WriteHeader(http.StatusNotModified)
		return
	}
	user := ""
	if k == 2 || k == 3 {
		user = r.Header.Get("Cookie")
	}
	variant := ""
	if k == 1 || k == 3 {
		variant = r.Header.Get("Accept")
	}
	body := fmt.Sprintf("%d|%s|%s|%d|%s|end", k, variant, user, version, strings.Repeat("x", w.draw(6000)))
	switch w.draw(12) {
	case 0:
		w.fails()
		h.Del("Etag")
		h.Set("Cache-Control", "no-store")
		rw.WriteHeader(http.StatusServiceUnavailable)
		return
	case 1:
		w.fails()
		panic(http.ErrAbortHandler)
	case 2, 3, 4:
		half := w.draw(len(body))
		_, _ = io.WriteString(rw, body[:half])
		rw.(http.Flusher).Flush()
		time.Sleep(time.Duration(w.draw(30)) * time.Millisecond)
		if w.draw(3) == 0 {
			w.fails()
			panic(http.ErrAbortHandler)
		}
		if r.Context().Err() != nil {
			return // as do handlers that check their context
		}
		_, _ = io.WriteString(rw, body[half:])
	default:
		_, _ = io.WriteString(rw, body)
	}
}

func (w *world) fails() {
	w.mu.Lock()
	w.failed++
	w.mu.Unlock()
}

// client makes a few random requests and changes, one after another.
func (w *world) client() {
	for range 6 {
		time.Sleep(time.Duration(w.draw(400)) * time.Millisecond)
		k, i := w.draw(historyKeys), w.draw(len(w.sites))
		switch w.draw(14) {
		case 0:
			w.mu.Lock()
			next := w.versions[k] + 1
			w.mu.Unlock()
			if r := w.sites[i].do(w.sites[i].request(w.t.Context(), "POST", "/"+strconv.Itoa(k))); r.status == 204 {
				time.Sleep(w.late)
				w.publish(k, next)
			}
		case 1:
			w.mu.Lock()
			now := w.versions[k]
			w.mu.Unlock()
			if w.draw(2) == 0 {
				_ = w.caches[i].InvalidateTags(context.Background(), fmt.Sprint("t", k))
			} else {
				_, _ = w.caches[i].Invalidate(context.Background(), "http", "shop.example", "/"+strconv.Itoa(k))
			}
			time.Sleep(w.late)
			w.publish(k, now)
		default:
			w.read(w.sites[i], k)
		}
	}
}

func (w *world) publish(k, version int) {
	w.mu.Lock()
	w.settled[k] = max(w.settled[k], version)
	w.mu.Unlock()
}

func (w *world) read(s *site, k int) {
	ctx, cancel := context.WithCancel(w.t.Context())
	defer cancel()
	accept, cookie := fmt.Sprint("a", w.draw(2)), ""
	fields := []string{"Accept", accept}
	if w.draw(3) == 0 {
		cookie = fmt.Sprint("u", w.draw(2))
		fields = append(fields, "Cookie", cookie)
	}
	switch w.draw(8) {
	case 0:
		fields = append(fields, "Cache-Control", "no-cache")
	case 1:
		fields = append(fields, "Cache-Control", "no-store")
	}
	if w.draw(4) == 0 {
		wait := time.Duration(w.draw(40)) * time.Millisecond
		go func() { time.Sleep(wait); cancel() }()
	}
	method := "GET"
	if w.draw(8) == 0 {
		method = "HEAD"
	}
	w.mu.Lock()
	oldest := w.settled[k]
	w.mu.Unlock()
	r := s.do(s.request(ctx, method, "/"+strconv.Itoa(k), fields...))
	if r.err != nil || r.status != 200 || method == "HEAD" {
		return
	}
	parts := strings.Split(r.body, "|")
	if len(parts) != 6 || parts[5] != "end" {
		w.t.Errorf("seed %d: a truncated body was delivered as complete: %q", w.seed, shortened(r.body))
		return
	}
	version, _ := strconv.Atoi(parts[3])
	switch {
	case parts[0] != strconv.Itoa(k):
		w.t.Errorf("seed %d: key %d got the body of key %s", w.seed, k, parts[0])
	case (k == 1 || k == 3) && parts[1] != accept:
		w.t.Errorf("seed %d: key %d, %s got the variant %s", w.seed, k, accept, parts[1])
	case (k == 2 || k == 3) && parts[2] != cookie:
		w.t.Errorf("seed %d: key %d: user %q got the body of %q: %v", w.seed, k, cookie, parts[2], r.header)
	case version < oldest && !w.loose:
		w.t.Errorf("seed %d: key %d: got version %d after it was acknowledged that nothing before %d is served: %v",
			w.seed, k, version, oldest, r.header)
	}
}

func history(t *testing.T, seed uint64) {
	cache, err := weirhttp.NewCache(2 << 20)
	if err != nil {
		t.Fatal(err)
	}
	l := permits(t, limit.ConcurrencyOptions{Limit: historyCap, Queue: 20})
	w := &world{t: t, seed: seed, caches: []*weirhttp.Cache{cache}, rng: rand.New(rand.NewPCG(seed, 0))}
	o := weirhttp.Options{
		Cache: cache, Limiter: l, FinishAbandoned: seed%2 == 0, Relearn: time.Duration(seed%3) * 100 * time.Millisecond,
		MaxObject: 1 << (11 + seed%3), NoCoalescing: seed%7 == 0,
	}
	if seed%5 == 0 {
		o.RefreshAhead = 0.5
	}
	p := h1
	if seed%4 == 0 && h2InBubbles {
		p = h2
	}
	w.sites = []*site{open(t, p, o, w.origin)}
	w.run()
}

// run runs the clients, and checks that nothing is left over.
func (w *world) run() {
	w.t.Helper()
	var clients sync.WaitGroup
	for range 25 {
		clients.Go(w.client)
	}
	clients.Wait()
	time.Sleep(10 * time.Second)
	var failed, abandoned uint64
	for i, s := range w.sites {
		s.client.CloseIdleConnections()
		synctest.Wait()
		if got := s.peak.Load(); got > historyCap {
			w.t.Errorf("seed %d: %d calls at once; want at most %d", w.seed, got, historyCap)
		}
		got := s.handler.Stats()
		if got.InFlight != 0 || got.Waiting != 0 || got.Streams != 0 {
			w.t.Errorf("seed %d: Stats = %+v at the end", w.seed, got)
		}
		if got.Requests != uint64(s.came.Load()) || got.Ended() != got.Requests || got.Calls != uint64(s.calls.Load()) {
			w.t.Errorf("seed %d: %d requests came and %d calls were made; the Stats count %d requests with %d outcomes, and %d calls: %+v",
				w.seed, s.came.Load(), s.calls.Load(), got.Requests, got.Ended(), got.Calls, got)
		}
		failed += got.Failed + got.Broken + got.ServerErrors
		abandoned += got.Abandoned
		if got := w.caches[i].Stats(); got.Reserved != 0 {
			w.t.Errorf("seed %d: Reserved = %d at the end; want 0", w.seed, got.Reserved)
		}
	}
	if failed > w.failed || w.failed > failed+abandoned {
		w.t.Errorf("seed %d: %d calls failed at the origin; the Stats count %d failed calls, and %d abandoned", w.seed, w.failed, failed, abandoned)
	}
}

func TestH1H3H5H7H10H14_History(t *testing.T) {
	for seed := range histories.Seeds(t, 40, 1000) {
		synctest.Test(t, func(t *testing.T) { history(t, seed) })
	}
}
