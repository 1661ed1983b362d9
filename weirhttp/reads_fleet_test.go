package weirhttp_test

import (
	"context"
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

// A namer is a Tier that records the names in its requests.
type namer struct {
	fleet.Tier
	mu    sync.Mutex
	names []string // guarded by mu
}

func (n *namer) Acquire(ctx context.Context, k fleet.Key, a fleet.Ask) (fleet.Answer, error) {
	n.mu.Lock()
	n.names = append(n.names, k.Name)
	n.mu.Unlock()
	return n.Tier.Acquire(ctx, k, a)
}

// H32: the instances of a fleet make one call for bodies of one meaning, and a purge
// reaches all of them, even if the names of all bodies collided.
func TestH32_Fleet(t *testing.T) {
	for _, collide := range []bool{false, true} {
		t.Run(fmt.Sprintf("collide=%v", collide), func(t *testing.T) {
			if collide {
				weirhttp.CollideBodies(t)
			}
			synctest.Test(t, func(t *testing.T) {
				var caches []*weirhttp.Cache
				set := func(_ int, o *weirhttp.Options) {
					o.Reads = []weirhttp.ReadRule{ignoring}
					o.Cache, _ = weirhttp.NewCache(weirhttp.DefaultCacheBytes)
					caches = append(caches, o.Cache)
				}
				e := openEnsemble(t, 3, set, parrot(time.Second, "Cache-Control", "max-age=60"))
				all := func(body string, request func(s *site, i int) *http.Request) {
					t.Helper()
					for _, replies := range e.everywhere(10, request) {
						for _, r := range replies {
							if r.status != 200 || !strings.HasPrefix(r.body, body) {
								t.Fatalf("got %d %q, %v; want %q", r.status, r.body, r.err, body)
							}
						}
					}
				}
				one := func(s *site, i int) *http.Request { return s.reading(fmt.Sprintf(`{"q":1,"user":%d}`, i)) }
				two := func(s *site, i int) *http.Request { return s.reading(fmt.Sprintf(`{"q":2,"user":%d}`, i)) }
				all(`POST {"q":1,`, one)
				all(`POST {"q":2,`, two)
				all(`POST {"q":1,`, one)
				if !collide {
					e.wantCalls(2)
				}
				before := e.calls()
				if _, err := caches[0].Invalidate(t.Context(), "http", "shop.example", "/search"); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				all(`POST {"q":1,`, one)
				all(`POST {"q":2,`, two)
				if n := e.calls() - before; !collide && n != 2 || n < 2 {
					t.Errorf("%d calls after a purge; want 2", n)
				}
				before = e.calls()
				if _, err := caches[1].Expire(t.Context(), "http", "shop.example", "/search"); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				all(`POST {"q":1,`, one)
				if n := e.calls() - before; !collide && n != 1 || n < 1 {
					t.Errorf("%d calls after an expiry; want 1", n)
				}
			})
		})
	}
}

// H32: a name in the fleet reveals nothing of a body, and nothing of who asked.
func TestH32_FleetNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := fleet.NewMemory(fleet.MemoryOptions{})
		tier := &namer{Tier: memory}
		o := reads(byJSON)
		o.Fleet = weirhttp.FleetOptions{Config: fleet.Config{Tier: tier}}
		_, post := library(t, o, nil)
		post(`{"secret":"hush"}`, "X-Api-Key", "token")
		if len(tier.names) == 0 {
			t.Fatal("the fleet was not asked")
		}
		for _, name := range tier.names {
			if !strings.HasPrefix(name, "b") || strings.Contains(name, "secret") || strings.Contains(name, "hush") || strings.Contains(name, "token") {
				t.Errorf("name = %q; want a digest and the URL", name)
			}
		}
		t.Cleanup(func() { _ = memory.Close(context.Background()) })
	})
}
