package weirhttp

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/responses"
	"github.com/weir-go/weir/internal/rfc9111"
)

// Clients choose how long keys are, and origins how long header fields are. Hints
// outlive both, outside of the bound of the Cache.
func TestH7_HintsPinNoRequestAndNoResponse(t *testing.T) {
	const n, size = 100, 1 << 20
	h := newSharingHints()
	before := heap()
	for i := range n {
		long := strings.Repeat(fmt.Sprint(i%10), size)
		key := responses.Key{Scheme: "http", Host: "a.example", Target: "/?" + long + fmt.Sprint(i)}
		h.learn(key, &rfc9111.Response{Status: 200, Shared: true, Vary: []string{long[:5]}}, 0, time.Now(), time.Minute)
		if got := h.of(key); len(got.vary) != 1 {
			t.Fatalf("vary = %q; want the field", got.vary)
		}
		h.learn(key, &rfc9111.Response{Status: 200, Shared: true, Vary: []string{"A", long}}, 0, time.Now(), time.Minute)
		if got := h.of(key); len(got.vary) != 0 {
			t.Fatalf("vary has %d fields; want none instead of such long ones", len(got.vary))
		}
		h.learn(key, &rfc9111.Response{Status: 200, Shared: true, Vary: []string{long[:5]}}, 0, time.Now(), time.Minute)
	}
	if grown := heap() - before; grown > n*size/20 {
		t.Errorf("%d hints take %d bytes", n, grown)
	}
	runtime.KeepAlive(h)
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // far below 2^63
}

func TestH7_EveryPartOfAKeyHasItsOwnHint(t *testing.T) {
	h := newSharingHints()
	for _, key := range []responses.Key{
		{Scheme: "http", Host: "a", Target: "/b"}, {Scheme: "https", Host: "a", Target: "/b"},
		{Scheme: "http", Host: "a/", Target: "b"}, {Scheme: "http", Host: "a", Target: "/", Body: "b"},
	} {
		if h.of(key) != &noHint {
			t.Errorf("%v has the hint of another key", key)
		}
		h.learn(key, &rfc9111.Response{Status: 200}, 0, time.Now(), time.Minute)
		if h.of(key).soloUntil.IsZero() {
			t.Errorf("%v has no hint", key)
		}
	}
}

// A large response to a request with credentials may be for these alone, and a small one
// to other credentials proves nothing about it.
func TestH7_ALargeBodyIsRememberedForItsCredentials(t *testing.T) {
	const none, auth = rfc9111.Credentials(0), rfc9111.Authorization
	now, ok := time.Now(), &rfc9111.Response{Status: 200, Shared: true}
	for _, test := range []struct {
		name       string
		record     func(h *sharingHints, k responses.Key)
		none, auth bool
	}{
		{"nothing", func(*sharingHints, responses.Key) {}, false, false},
		{"large for all", func(h *sharingHints, k responses.Key) {
			h.measured(k, ok, none, true, now, time.Minute)
		}, true, true},
		{"large with Authorization", func(h *sharingHints, k responses.Key) {
			h.measured(k, ok, auth, true, now, time.Minute)
		}, false, true},
		{"then for all", func(h *sharingHints, k responses.Key) {
			h.measured(k, ok, auth, true, now, time.Minute)
			h.measured(k, ok, none, true, now, time.Minute)
		}, true, true},
		{"small with others", func(h *sharingHints, k responses.Key) {
			h.measured(k, ok, none, true, now, time.Minute)
			h.measured(k, ok, auth, false, now, time.Minute)
		}, true, true},
		{"small again", func(h *sharingHints, k responses.Key) {
			h.measured(k, ok, none, true, now, time.Minute)
			h.measured(k, ok, none, false, now, time.Minute)
		}, false, false},
		{"headers alone", func(h *sharingHints, k responses.Key) {
			h.measured(k, ok, none, true, now, time.Minute)
			h.learn(k, ok, none, now, time.Minute)
		}, true, true},
		{"an error about one request", func(h *sharingHints, k responses.Key) {
			h.measured(k, &rfc9111.Response{Status: 412}, none, true, now, time.Minute)
		}, false, false},
		{"long ago", func(h *sharingHints, k responses.Key) {
			h.measured(k, ok, none, true, now.Add(-time.Minute), time.Minute)
		}, false, false},
	} {
		h, k := newSharingHints(), responses.Key{Scheme: "http", Host: "a", Target: "/"}
		test.record(h, k)
		if got := h.of(k); got.large(none, now) != test.none || got.large(auth, now) != test.auth {
			t.Errorf("%s: large without, with Authorization = %v, %v; want %v, %v",
				test.name, got.large(none, now), got.large(auth, now), test.none, test.auth)
		}
	}
}
