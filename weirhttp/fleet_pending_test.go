package weirhttp_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/weirhttp"
)

// A logged is a log that can be read while it is written.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *logged) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), text)
}

// T12: what an instance has purged while it was cut off is not served there from the
// fleet. Other instances do not serve it either once the purge has been sent. The
// instance can still use everything else in the fleet.
func TestT12_PurgesWhileCutOffAreNotUndone(t *testing.T) {
	ways := map[string]func(s *site, c *weirhttp.Cache) error{
		"url": func(s *site, c *weirhttp.Cache) error {
			_, err := c.Invalidate(s.t.Context(), "http", "shop.example", "/x")
			return err
		},
		"softly": func(s *site, c *weirhttp.Cache) error {
			_, err := c.Expire(s.t.Context(), "http", "shop.example", "/x")
			return err
		},
		"tag":               func(s *site, c *weirhttp.Cache) error { return c.InvalidateTags(s.t.Context(), "y", "t") },
		"tag softly":        func(s *site, c *weirhttp.Cache) error { return c.ExpireTags(s.t.Context(), "t") },
		"everything":        func(s *site, c *weirhttp.Cache) error { return c.InvalidateAll(s.t.Context()) },
		"everything softly": func(s *site, c *weirhttp.Cache) error { return c.ExpireAll(s.t.Context()) },
		"the caller has gone": func(s *site, c *weirhttp.Cache) error {
			ctx, cancel := context.WithCancel(s.t.Context())
			cancel()
			_, err := c.Invalidate(ctx, "http", "shop.example", "/x")
			return err
		},
		"POST": func(s *site, c *weirhttp.Cache) error {
			s.do(s.request(s.t.Context(), http.MethodPost, "/x")).want(s.t, 200, "/x")
			return fleet.ErrUnavailable
		},
	}
	for way, purge := range ways {
		for _, vary := range []bool{false, true} {
			for _, hangs := range []bool{false, true} {
				t.Run(way, func(t *testing.T) { purgesWhileCutOff(t, way, purge, vary, hangs) })
			}
		}
	}
}

func purgesWhileCutOff(t *testing.T, way string, purge func(*site, *weirhttp.Cache) error, vary, hangs bool) {
	synctest.Test(t, func(t *testing.T) {
		var log logged
		var version atomic.Int64
		caches := make([]*weirhttp.Cache, 3)
		e := openEnsemble(t, 3, func(i int, o *weirhttp.Options) {
			caches[i], _ = weirhttp.NewCache(weirhttp.DefaultCacheBytes)
			o.Cache = caches[i]
			if i == 0 {
				o.Fleet.Logger = slog.New(slog.NewTextHandler(&log, nil))
			}
		}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "max-age=600")
			w.Header().Set("X-Version", string(rune('0'+version.Load())))
			if r.URL.Path == "/x" {
				w.Header().Set("Surrogate-Key", "t")
				if vary {
					w.Header().Set("Vary", "Accept-Language")
				}
			}
			_, _ = io.WriteString(w, r.URL.Path)
		})
		shows := func(i int, version string) {
			t.Helper()
			has(t, e.sites[i].get("/x", "Accept-Language", "en"), "X-Version", version)
		}
		for i, s := range e.sites {
			shows(i, "0")
			has(t, s.get("/other"), "X-Version", "0")
		}
		synctest.Wait()
		version.Store(1)
		if hangs {
			e.lines[0].Hang()
		} else {
			e.lines[0].Cut()
		}
		if err := purge(e.sites[0], caches[0]); !errors.Is(err, fleet.ErrUnavailable) {
			t.Errorf("the purge returned %v; want ErrUnavailable", err)
		}
		shows(0, "1")
		for i := 1; i < 3; i++ {
			shows(i, "0") // they have not received the purge
		}
		e.lines[1].Cut()
		if hangs {
			e.lines[0].Unhang() // the engine may execute the commands that hung
		} else {
			e.lines[0].Mend()
		}
		shows(0, "1")
		e.lines[1].Mend()
		time.Sleep(5 * time.Second)
		for i := range e.sites {
			shows(i, "1")
			if st := caches[i].Stats().Fleet; st.Pending != 0 || st.Blocked {
				t.Errorf("Stats of %d = %+v; want none pending", i, st)
			}
		}
		if n, all := log.count("not acknowledged by the fleet"), log.count("all queued purges are acknowledged"); way != "the caller has gone" && !hangs && (n != 1 || all != 1) {
			t.Errorf("the log has %d lines for pending purges and %d for acknowledged ones; want one each:\n%s", n, all, &log.b)
		}
	})
}
