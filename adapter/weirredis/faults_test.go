package weirredis_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/weir-go/weir/adapter/weirredis/internal/redistest"
	"github.com/weir-go/weir/fleet"
)

// scripted runs a script on each server that has the keys of a prefix.
func scripted(t *testing.T, servers []*redistest.Server, do func(c rueidis.Client, key string)) {
	t.Helper()
	for _, s := range servers {
		c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.Addr}, DisableCache: true, ForceSingleClient: true})
		if err != nil {
			t.Fatal(err)
		}
		keys, err := c.Do(context.Background(), c.B().Keys().Pattern("weir:*").Build()).AsStrSlice()
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range keys {
			do(c, key)
		}
		c.Close()
	}
}

// A dumped is a key in a snapshot.
type dumped struct {
	server *redistest.Server
	key    string
	data   string
	left   int64 // milliseconds; 0: forever
}

// restore resets servers to their state before lost, as from a snapshot: all keys are
// deleted, and the earlier ones restored.
func restore(t *testing.T, servers []*redistest.Server, lost func()) {
	t.Helper()
	var all []dumped
	for _, s := range servers {
		scripted(t, []*redistest.Server{s}, func(c rueidis.Client, key string) {
			data, err := c.Do(context.Background(), c.B().Dump().Key(key).Build()).ToString()
			if err != nil {
				return // it has expired since
			}
			left, _ := c.Do(context.Background(), c.B().Pttl().Key(key).Build()).AsInt64()
			all = append(all, dumped{s, key, data, max(left, 0)})
		})
	}
	lost()
	for _, s := range servers {
		s.Do("FLUSHALL")
	}
	for _, d := range all {
		d.server.Do("RESTORE", d.key, strconv.FormatInt(d.left, 10), d.data, "REPLACE")
	}
}

// stepClock changes all stored instants as a step of the servers' clock would: if the
// clock goes back by d, they are d further in the future.
func stepClock(t *testing.T, servers []*redistest.Server, d time.Duration) {
	t.Helper()
	by := strconv.FormatInt((-d).Microseconds(), 10)
	for _, s := range servers {
		scripted(t, []*redistest.Server{s}, func(_ rueidis.Client, key string) {
			fields := map[string][]string{"weir:s:": {"f", "l", "c"}, "weir:e:": {"f", "u"}}
			for prefix, names := range fields {
				for _, name := range names {
					if strings.HasPrefix(key, prefix) && s.Int("HEXISTS", key, name) == 1 && name != "f" {
						s.Do("HINCRBY", key, name, by)
					}
				}
			}
		})
	}
}

// foreign stores another program's values where a key has its state and its entry.
func foreign(servers []*redistest.Server, k fleet.Key, set func(command ...string)) {
	tag := "{" + strings.NewReplacer("/", "%2F", " ", "%20").Replace(k.Namespace) + "/" + k.Name + "}"
	set("SET", "weir:s:"+tag, "another program's")
	set("HSET", "weir:e:"+tag, "f", "abc", "u", "soon", "d", "x")
	_ = servers
}

// evict makes servers evict until little is left.
func evict(servers []*redistest.Server) {
	for _, s := range servers {
		s.Do("CONFIG", "SET", "maxmemory-policy", "allkeys-random")
		s.Do("CONFIG", "SET", "maxmemory", "1")
		_, _ = s, s.Text("PING")
		s.Do("CONFIG", "SET", "maxmemory", "0")
		s.Do("CONFIG", "SET", "maxmemory-policy", "noeviction")
	}
}
