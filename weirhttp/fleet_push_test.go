package weirhttp_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/weirhttp"
)

// T1: a pushed response is served without a request to the Tier, and MemoryCap counts from
// its store.
func TestT1_PushedResponseIsMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache, err := weirhttp.NewCache(weirhttp.DefaultCacheBytes)
		if err != nil {
			t.Fatal(err)
		}
		e := openEnsemble(t, 2, func(i int, o *weirhttp.Options) {
			if i == 0 {
				o.Cache = cache
			}
			o.Fleet.MemoryCap, o.Fleet.PushValues = 10*time.Second, true
		}, counting(0, "Cache-Control", "max-age=600"))
		a, b := e.sites[0], e.sites[1]
		time.Sleep(time.Second) // the age of a push is rounded up: none may seem older than the watch
		has(t, a.get("/x"), "X-Call", "1")
		has(t, b.get("/x"), "X-Call", "1")
		if _, err = cache.Invalidate(t.Context(), "http", "shop.example", "/x"); err != nil {
			t.Fatal(err)
		}
		has(t, a.get("/x"), "X-Call", "2")
		synctest.Wait()
		before := e.lines[1].Commands()
		time.Sleep(6 * time.Second)
		r := b.get("/x")
		has(t, r, "X-Call", "2")
		has(t, r, "Age", "6")
		time.Sleep(4*time.Second - time.Millisecond)
		has(t, b.get("/x"), "X-Call", "2")
		if n := e.lines[1].Commands() - before; n != 0 {
			t.Errorf("within MemoryCap it sent %d commands; want 0", n)
		}
		time.Sleep(2 * time.Millisecond)
		has(t, b.get("/x"), "X-Call", "2")
		if n := e.lines[1].Commands() - before; n != 1 {
			t.Errorf("after MemoryCap it sent %d commands; want 1", n)
		}
	})
}

// An overheard is a Watcher that only records pushed values, as another user of the
// engine could.
type overheard struct {
	mu  sync.Mutex
	all []string // guarded by mu
}

var _ fleet.Watcher = (*overheard)(nil)

func (o *overheard) Pushed(name string, e fleet.Entry, _ uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, name+" "+string(e.Data))
}
func (*overheard) Changed(string, uint64, bool) {}
func (*overheard) Released(string)              {}
func (*overheard) Tagged(string, uint64)        {}
func (*overheard) Expired(string, uint64)       {}
func (*overheard) Lost()                        {}
func (*overheard) Recovered()                   {}
func (*overheard) Reset()                       {}

// H3: no response for one client is pushed, however often it is requested. Responses
// that may be shared are, so this would notice the others.
func TestH3_PrivateResponsesAreNotPushed(t *testing.T) {
	for what, fields := range map[string][]string{
		"private":    {"Cache-Control", "private, max-age=60"},
		"no-store":   {"Cache-Control", "no-store"},
		"set-cookie": {"Cache-Control", "max-age=60", "Set-Cookie", "user=secret"},
		"vary":       {"Cache-Control", "max-age=60", "Vary", "*"},
		"no-cache":   {"Cache-Control", "max-age=60, no-cache", "Etag", `"1"`},
		"authorized": {"Cache-Control", "max-age=60"},
		"shared":     {"Cache-Control", "max-age=60"},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := openEnsemble(t, 3, func(_ int, o *weirhttp.Options) { o.Fleet.PushValues = true }, func(w http.ResponseWriter, r *http.Request) {
					for i := 0; i < len(fields); i += 2 {
						w.Header().Set(fields[i], fields[i+1])
					}
					time.Sleep(time.Second)
					fmt.Fprint(w, "secret of ", r.Header.Get("Authorization"))
				})
				var ear overheard
				stop, err := e.tier.Watch("http", &ear)
				if err != nil {
					t.Fatal(err)
				}
				defer stop()
				for range 3 {
					var wg sync.WaitGroup
					for i, s := range e.sites {
						wg.Go(func() {
							if what == "authorized" {
								s.get("/me", "Authorization", fmt.Sprint("user", i)).want(t, 200, fmt.Sprint("secret of user", i))
								return
							}
							s.get("/me").want(t, 200, "secret of ")
						})
					}
					wg.Wait()
					time.Sleep(2 * time.Minute)
				}
				synctest.Wait()
				ear.mu.Lock()
				defer ear.mu.Unlock()
				if got := strings.Contains(strings.Join(ear.all, "\n"), "secret"); got != (what == "shared") {
					t.Errorf("pushed %q; want something only of the response that may be shared", ear.all)
				}
			})
		})
	}
}
