package proxy_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// pushing returns a copy of a fleet's configuration with push_values.
func pushing(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	newer := filepath.Join(filepath.Dir(file), "pushing.yaml")
	if err := os.WriteFile(newer, []byte(strings.Replace(string(text), "fleet:\n", "fleet:\n  push_values: true\n", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	return newer
}

// pushedTo reads from /stats how many requests pushed values have answered.
func pushedTo(t *testing.T, admin string) uint64 {
	t.Helper()
	var v struct {
		Cache struct{ Fleet struct{ Pushed *uint64 } }
	}
	if err := json.Unmarshal([]byte(get(admin+"/stats").body), &v); err != nil || v.Cache.Fleet.Pushed == nil {
		t.Fatalf("/stats shows nothing about pushed values: %v", err)
	}
	return *v.Cache.Fleet.Pushed
}

// pushedValues has two proxies with push_values and one of another program share an
// engine. The two use pushed values. Whichever of the three purges or stores, none of
// them serves what was purged, and the newest response reaches all.
func pushedValues(t *testing.T, program string) {
	server, addr := redisServer(t), free(t)
	startRedis(t, server, addr, "secret-of-redis")
	origin, calls := versions(t)
	file := fleetConfig(t, origin.URL, addr, "secret-of-redis")
	other := runProgram(t, program, nil, "proxy", "--config", file).ready()
	a := start(t, "--config", pushing(t, file))
	b := start(t, "--config", pushing(t, file))

	all, last := []*process{a, b, other}, ""
	round := func(purger int, loader *process) {
		t.Helper()
		if last != "" {
			if status, text := purged(t, all[purger].admin, "/hot"); status != 200 {
				t.Fatalf("the purge is %d: %s", status, text)
			}
		}
		before, n := last, calls.Load()
		until(t, "a response after the purge", func() bool {
			got, _ := ask(loader.listen[0]+"/hot", "")
			last = got.body
			return got.status == 200 && last != before
		})
		for _, p := range all {
			until(t, "the same response from all", func() bool {
				got, _ := ask(p.listen[0]+"/hot", "")
				if got.body != last && got.body != before {
					t.Fatalf("a proxy serves %q; want %q, or until the push %q", got.body, last, before)
				}
				return got.body == last
			})
		}
		for _, p := range all { // what was purged does not come back
			if got, _ := ask(p.listen[0]+"/hot", ""); got.body != last {
				t.Fatalf("a proxy serves %q after it served %q", got.body, last)
			}
		}
		if calls.Load() != n+1 {
			t.Errorf("the origin was called %d times; want 1", calls.Load()-n)
		}
	}
	// On a busy machine a request can be faster than the push: then it asks the engine.
	for i := 0; i < 9 || pushedTo(t, a.admin)+pushedTo(t, b.admin) == 0; i++ {
		if i == 90 {
			t.Fatal("no pushed value was used in 90 rounds; want some")
		}
		round(i%3, all[i/3%3])
	}
}

// T14: a version without push_values shares an engine with one that pushes values.
func TestT14_VersionsWithPushedValues(t *testing.T) { pushedValues(t, previous(t)) }

// T14: the same with a proxy of this version that does not push.
func TestT14_OnlySomeProxiesPushValues(t *testing.T) { pushedValues(t, os.Args[0]) }
