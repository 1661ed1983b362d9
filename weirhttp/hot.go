package weirhttp

import (
	"net/http"
	"strings"
	"time"

	"github.com/weir-go/weir/inspect"
	"github.com/weir-go/weir/internal/hotkeys"
	"github.com/weir-go/weir/internal/responses"
)

// hotURLs finds the busiest URLs of a Handler. A nil *hotURLs can be used, and finds
// none.
type hotURLs struct {
	h      *Handler
	sketch *hotkeys.Sketch[responses.Key]
}

func newHotURLs(h *Handler, n int) *hotURLs {
	if n <= 0 {
		return nil
	}
	return &hotURLs{h: h, sketch: hotkeys.New[responses.Key](n, 0)}
}

// clock converts t for the sketch.
func (u *hotURLs) clock(t time.Time) int64 { return int64(t.Sub(u.h.began)) }

// keyOf returns the key of r, for requests that are not looked up. It is empty for
// requests that are not counted, because they are not timed either.
func (u *hotURLs) keyOf(r *http.Request, apart bool) responses.Key {
	if u == nil || apart {
		return responses.Key{}
	}
	return u.h.key(r)
}

// asked counts a request that arrived at came. turn is the number of the request.
func (u *hotURLs) asked(key responses.Key, came time.Time, turn uint64) {
	if u == nil || key == (responses.Key{}) {
		return
	}
	now := u.clock(came)
	if n := u.sketch.Sample(now, turn); n > 0 {
		u.sketch.Call(short(key), n, now)
	}
}

// called counts a call that took d.
func (u *hotURLs) called(key responses.Key, d time.Duration) {
	if u == nil || key == (responses.Key{}) {
		return
	}
	u.sketch.Load(short(key), d, u.clock(time.Now()))
}

// maxHot is how many bytes of a host, and of a target, are kept: clients may send
// long ones, and each of the sketch's counters holds one.
const maxHot = 1024

// short copies key, which would pin the request otherwise, and cuts long strings.
func short(key responses.Key) responses.Key {
	cut := func(s string) string {
		if len(s) > maxHot {
			return s[:maxHot] + "…"
		}
		return strings.Clone(s)
	}
	return responses.Key{Scheme: strings.Clone(key.Scheme), Host: cut(key.Host), Target: cut(key.Target), Body: key.Body}
}

// top returns the busiest keys, at most most of each kind.
func (u *hotURLs) top(most int) inspect.HotKeys {
	if u == nil {
		return inspect.HotKeys{}
	}
	found := u.sketch.HotKeys(most, u.clock(time.Now()))
	for _, list := range [][]inspect.HotKey{found.ByTraffic, found.ByLoadTime} {
		for i := range list {
			if k, ok := list[i].Key.(responses.Key); ok {
				list[i].Key = keyText(k)
			}
		}
	}
	return found
}
