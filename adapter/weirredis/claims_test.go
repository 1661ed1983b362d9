package weirredis_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/adapter/weirredis"
	"github.com/weir-go/weir/adapter/weirredis/internal/redistest"
	"github.com/weir-go/weir/once"
	"github.com/weir-go/weir/once/oncetest"
	"github.com/weir-go/weir/weirhttp"
)

var claimSecret = []byte("a secret of all gateways")

func claims(t testing.TB, tier *weirredis.Tier, change ...func(*weirredis.ClaimsOptions)) *weirredis.ClaimStore {
	t.Helper()
	o := weirredis.ClaimsOptions{Namespace: "http", Secret: claimSecret}
	for _, c := range change {
		c(&o)
	}
	s, err := tier.Claims(t.Context(), o)
	if err != nil {
		t.Fatalf("Claims = %v", err)
	}
	t.Cleanup(func() { end(s) })
	return s
}

// end ends the signs of life of one gateway, as when its process has ended.
func end(s *weirredis.ClaimStore) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = s.Close(ctx) // a Redis that has ended as well keeps no signs of life
}

// gone removes the signs of life of all gateways; those that are alive show it with their next operation.
func gone(s *redistest.Server) {
	for _, key := range s.Texts("KEYS", "weir:o:*:a:*") {
		s.Do("DEL", key)
	}
}

// The store in Redis passes the suite, with two gateways in each history.
func TestH45_RedisPassesTheSuite(t *testing.T) {
	s := redistest.Start(t, redistest.Redis(t))
	tier := open(t, s)
	n := 0
	seeds := uint64(60)
	if testing.Short() {
		seeds = 10
	}
	oncetest.Run(t, seeds, func(t testing.TB) oncetest.Backend {
		n++
		name := fmt.Sprint("ns", n)
		return oncetest.Backend{
			Shared: true,
			Open: func(bytes int64, keys int) once.Store {
				return claims(t, tier, func(o *weirredis.ClaimsOptions) {
					o.Namespace, o.Bytes, o.Keys, o.Alive = name, bytes, keys, 5*time.Minute
				})
			},
			Gone: func(dead once.Store) { end(dead.(*weirredis.ClaimStore)) },
		}
	})
}

func claimOf(state once.State) once.Record {
	now := time.Now()
	return once.Record{
		State: state, Route: "pay", Call: "POST /secret", Fingerprint: once.Sum("secret body"), Credentials: once.Sum("secret token"), Principal: once.Sum("secret user"),
		Since: now, Expires: now.Add(time.Hour), Body: []byte("secret response"), Header: http.Header{"Set-Cookie": {"secret"}},
	}
}

// Redis has no key, credential, path, or response in clear, nor a digest that can be guessed.
func TestH45_NothingIsInClearInRedis(t *testing.T) {
	s := redistest.Start(t, redistest.Redis(t))
	store := claims(t, open(t, s))
	if _, err := store.Put(t.Context(), once.Sum("key"), claimOf(once.Answered), 0); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, key := range s.Texts("KEYS", "*") {
		all.WriteString(key + s.Text("DUMP", key)) // strings are not compressed below 20 bytes
		switch s.Text("TYPE", key) {
		case "hash":
			all.WriteString(strings.Join(append(s.Texts("HVALS", key), s.Texts("HKEYS", key)...), " "))
		case "zset":
			all.WriteString(strings.Join(s.Texts("ZRANGE", key, "0", "-1"), " "))
		case "string":
			all.WriteString(s.Text("GET", key))
		}
	}
	text := all.String()
	for _, d := range []string{"key", "secret body", "secret token", "secret user"} {
		sum := once.Sum(d)
		if strings.Contains(text, sum.String()) || strings.Contains(text, string(sum[:])) {
			t.Errorf("Redis has the plain digest of %q", d)
		}
	}
	if strings.Contains(text, "secret") || len(text) < 500 {
		t.Errorf("Redis has %q", text)
	}
}

// Another gateway sees that a call runs, and gets its outcome. If the gateway is gone, the call
// is unknown, and its late answer changes nothing.
func TestH45_AnotherGatewaySeesWhoIsAlive(t *testing.T) {
	s := redistest.Start(t, redistest.Redis(t))
	a, b := claims(t, open(t, s)), claims(t, open(t, s))
	id := once.Sum("key")
	claim, err := a.Put(t.Context(), id, claimOf(once.Claimed), 0)
	if err != nil {
		t.Fatal(err)
	}
	if own, err := a.Get(t.Context(), id); err != nil || own.Elsewhere || own.State != once.Claimed {
		t.Errorf("Get by the gateway with the claim = %+v, %v", own, err)
	}
	if got, err := b.Get(t.Context(), id); err != nil || !got.Elsewhere || got.State != once.Claimed {
		t.Errorf("Get by the other = %+v, %v; want a claim elsewhere", got, err)
	}
	answer, err := a.Put(t.Context(), id, claimOf(once.Answered), claim)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := b.Get(t.Context(), id); err != nil || got.State != once.Answered || got.Version != answer || string(got.Body) != "secret response" {
		t.Errorf("Get by the other = %+v, %v; want the response", got, err)
	}
	late, err := a.Put(t.Context(), once.Sum("late"), claimOf(once.Claimed), 0)
	if err != nil {
		t.Fatal(err)
	}
	gone(s)
	got, err := b.Get(t.Context(), once.Sum("late"))
	if err != nil || got.State != once.Unknown || got.Reason != once.ReasonGone || got.Elsewhere {
		t.Errorf("Get of a claim whose gateway is gone = %+v, %v; want unknown", got, err)
	}
	if _, err := a.Put(t.Context(), once.Sum("late"), claimOf(once.Answered), late); !errors.Is(err, once.ErrConflict) {
		t.Errorf("the late answer = %v; want ErrConflict", err)
	}
	if u := b.Usage(); u.Unknown != 1 || u.Keys != 2 {
		t.Errorf("Usage = %+v; want one unknown of 2", u)
	}
}

// A Redis that has lost what it had confirmed decides nothing any more, for any gateway.
func TestH45_RedisThatHasLostRecordsDecidesNothing(t *testing.T) {
	for name, lose := range map[string]func(s *redistest.Server){
		"all": func(s *redistest.Server) { s.Do("FLUSHALL") },
		// An engine whose policy was changed while it runs evicts single keys.
		"when they expire, written":   func(s *redistest.Server) { s.Do("DEL", "weir:o:{|http}:x") },
		"their weights, written":      func(s *redistest.Server) { s.Do("DEL", "weir:o:{|http}:w") },
		"how many there are, written": func(s *redistest.Server) { s.Do("DEL", "weir:o:{|http}:u") },
		"the writers, written":        func(s *redistest.Server) { s.Do("DEL", "weir:o:{|http}:s") },
		"the mark, written":           func(s *redistest.Server) { s.Do("SET", "weir:o:{|http}:mark", "other") },
		"all was written":             func(s *redistest.Server) { s.Do("FLUSHALL") },
		"some that were written": func(s *redistest.Server) {
			for _, owner := range s.Texts("HKEYS", "weir:o:{|http}:s") {
				if n := s.Text("HGET", "weir:o:{|http}:s", owner); !strings.HasPrefix(n, "0 ") {
					s.Do("HSET", "weir:o:{|http}:s", owner, "1 0")
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := redistest.Start(t, redistest.Redis(t))
			a, b := claims(t, open(t, s)), claims(t, open(t, s))
			for i := range 3 * strings.Count(name, "written") {
				if _, err := a.Put(t.Context(), once.Sum(fmt.Sprint(i)), claimOf(once.Claimed), 0); err != nil {
					t.Fatal(err)
				}
			}
			lose(s)
			eventually(t, "both gateways have found out", func() bool {
				_, err := a.Get(t.Context(), once.Sum("1"))
				_, err2 := b.Put(t.Context(), once.Sum("new"), claimOf(once.Claimed), 0)
				return errors.Is(err, weirredis.ErrLost) && errors.Is(err2, weirredis.ErrLost) && errors.Is(err, once.ErrStore)
			})
		})
	}
}

// A Redis with an append-only file that is killed loses nothing, and what failed meanwhile is
// cleaned up: a claim whose result was lost is free, because its call was not sent.
func TestH45_RedisIsKilledAndComesBack(t *testing.T) {
	s := redistest.Start(t, redistest.Redis(t), "--appendonly", "yes", "--appendfsync", "always")
	store := claims(t, open(t, s))
	kept, err := store.Put(t.Context(), once.Sum("kept"), claimOf(once.Claimed), 0)
	if err != nil {
		t.Fatal(err)
	}
	s.Kill()
	if _, err := store.Put(t.Context(), once.Sum("new"), claimOf(once.Claimed), 0); !errors.Is(err, once.ErrStore) {
		t.Errorf("Put without Redis = %v; want ErrStore", err)
	}
	if _, err := store.Put(t.Context(), once.Sum("kept"), claimOf(once.Answered), kept); !errors.Is(err, once.ErrStore) {
		t.Errorf("Put without Redis = %v; want ErrStore", err)
	}
	s.Restart()
	eventually(t, "it is back", func() bool {
		_, err := store.Get(t.Context(), once.Sum("other"))
		return err == nil
	})
	if got, err := store.Get(t.Context(), once.Sum("new")); err != nil || got.Version != 0 {
		t.Errorf("Get of a claim that failed = %+v, %v; want none", got.State, err)
	}
	if got, err := store.Get(t.Context(), once.Sum("kept")); err != nil || got.State != once.Unknown {
		t.Errorf("Get of a call whose answer failed = %v, %v; want unknown", got.State, err)
	}
}

// A claim whose confirmation was lost is stored, but its call was not sent: the gateway removes it.
func TestH45_AClaimWhoseReplyWasLostIsFree(t *testing.T) {
	s := redistest.Start(t, redistest.Redis(t))
	hasty := func(o *weirredis.Options) { o.Breaker.Deadline = 300 * time.Millisecond }
	a, b := claims(t, open(t, s, hasty)), claims(t, open(t, s))
	s.Pause() // it reads the command, and executes it after its connection is gone
	if _, err := a.Put(t.Context(), once.Sum("a"), claimOf(once.Claimed), 0); !errors.Is(err, once.ErrStore) {
		t.Errorf("Put = %v; want ErrStore", err)
	}
	s.Resume()
	eventually(t, "the claim is gone", func() bool {
		got, err := b.Get(t.Context(), once.Sum("a"))
		return err == nil && got.Version == 0 && b.Usage().Keys == 0
	})
}

// A claim counts only once the replicas have it.
func TestH45_AClaimWaitsForReplicas(t *testing.T) {
	s := redistest.Start(t, redistest.Redis(t))
	store := claims(t, open(t, s, func(o *weirredis.Options) { o.Breaker.Deadline = 300 * time.Millisecond }), func(o *weirredis.ClaimsOptions) { o.Replicas = 1 })
	if _, err := store.Put(t.Context(), once.Sum("a"), claimOf(once.Claimed), 0); !errors.Is(err, once.ErrStore) || !strings.Contains(err.Error(), "replicas") {
		t.Errorf("Put without a replica = %v; want an error that names replicas", err)
	}
	host, port, _ := strings.Cut(s.Addr, ":")
	replica := redistest.Start(t, redistest.Redis(t), "--replicaof", host+" "+port)
	eventually(t, "the replica follows", func() bool { return strings.Contains(replica.Text("INFO", "replication"), "master_link_status:up") })
	eventually(t, "the claim is confirmed", func() bool {
		_, err := store.Put(t.Context(), once.Sum("a"), claimOf(once.Claimed), 0)
		return err == nil
	})
	if n := replica.Int("HGET", "weir:o:{|http}:u", "k"); n != 1 {
		t.Errorf("the replica has %d keys; want 1", n)
	}
}

// Gateways with different secrets would not know each other's keys, and an engine that evicts
// them would forget which calls have run.
func TestH45_StoresThatWouldRunCallsTwiceDoNotOpen(t *testing.T) {
	s := redistest.Start(t, redistest.Redis(t))
	tier := open(t, s)
	claims(t, tier)
	if _, err := tier.Claims(t.Context(), weirredis.ClaimsOptions{Namespace: "http", Secret: []byte("another secret, of one")}); !errors.Is(err, weirredis.ErrSecret) {
		t.Errorf("Claims with another secret = %v; want ErrSecret", err)
	}
	s.Do("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	if _, err := tier.Claims(t.Context(), weirredis.ClaimsOptions{Namespace: "http", Secret: claimSecret}); err == nil || !strings.Contains(err.Error(), "allkeys") {
		t.Errorf("Claims with an allkeys policy = %v; want an error that names it", err)
	}
	for _, o := range []weirredis.ClaimsOptions{{}, {Secret: claimSecret, Keys: 3}, {Secret: claimSecret, Bytes: 1}, {Secret: claimSecret, Replicas: 17}, {Secret: claimSecret, Alive: time.Second}} {
		if _, err := tier.Claims(t.Context(), o); !errors.As(err, new(*weirredis.OptionError)) {
			t.Errorf("Claims(%+v) = %v; want an OptionError", o, err)
		}
	}
}

// A full Redis that the store has never reached is no sign of another secret.
func TestH45_AFullRedisIsNotAnotherSecret(t *testing.T) {
	s := redistest.Start(t, redistest.Redis(t))
	s.Do("CONFIG", "SET", "maxmemory", "1")
	store := claims(t, open(t, s))
	if _, err := store.Put(t.Context(), once.Sum("a"), claimOf(once.Claimed), 0); !errors.Is(err, once.ErrStore) || errors.Is(err, weirredis.ErrSecret) {
		t.Errorf("Put in a full Redis = %v; want ErrStore, and not ErrSecret", err)
	}
	s.Do("CONFIG", "SET", "maxmemory", "0")
	eventually(t, "there is room", func() bool {
		_, err := store.Put(t.Context(), once.Sum("b"), claimOf(once.Claimed), 0)
		return err == nil
	})
}

// A Redis that stops while a claim waits for replicas holds the request no longer than a multiple of the deadline.
func TestH45_ARedisThatHangsHoldsNoClaim(t *testing.T) {
	s := redistest.Start(t, redistest.Redis(t))
	store := claims(t, open(t, s, func(o *weirredis.Options) { o.Breaker.Deadline = 2 * time.Second }), func(o *weirredis.ClaimsOptions) { o.Replicas = 1 })
	ended := make(chan error, 1)
	go func() {
		_, err := store.Put(t.Context(), once.Sum("a"), claimOf(once.Claimed), 0)
		ended <- err
	}()
	eventually(t, "the claim waits", func() bool { return strings.Contains(s.Text("INFO", "clients"), "blocked_clients:1") })
	s.Pause()
	defer s.Resume()
	select {
	case err := <-ended:
		if !errors.Is(err, once.ErrStore) {
			t.Errorf("Put = %v; want ErrStore", err)
		}
	case <-time.After(patience):
		t.Error("the claim waits for a Redis that hangs")
	}
}

// A record whose state outside of the seal is another one is damaged, and no response.
func TestH45_TheStateIsSealed(t *testing.T) {
	s := redistest.Start(t, redistest.Redis(t))
	store := claims(t, open(t, s))
	if _, err := store.Put(t.Context(), once.Sum("a"), claimOf(once.Unknown), 0); err != nil {
		t.Fatal(err)
	}
	s.Do("HSET", s.Texts("KEYS", "weir:o:*:r:*")[0], "s", "2")
	if got, err := store.Get(t.Context(), once.Sum("a")); !errors.Is(err, once.ErrStore) {
		t.Errorf("Get = %v, %v; want ErrStore", got.State, err)
	}
}

// Two gateways share a Redis; the first ends at each of its steps. The origin sees each payment
// at most once, and one whose outcome is unknown stays so at the other gateway.
func TestH45_TwoGatewaysRunAPaymentOnce(t *testing.T) {
	s := redistest.Start(t, redistest.Redis(t))
	tier := open(t, s)
	var ran atomic.Int64
	gateway := func(store once.Store) *weirhttp.Handler {
		h, err := weirhttp.New(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusCreated)
			fmt.Fprintf(w, "paid %d", ran.Add(1))
		}), weirhttp.Options{Route: "pay", Gateway: true, Idempotency: &weirhttp.IdempotencyPolicy{Claims: once.NewClaims(store), Unknown: weirhttp.UnknownRefuse}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = h.Close(context.Background()) })
		return h
	}
	pay := func(h *weirhttp.Handler, key string) (int, string) {
		r := httptest.NewRequest(http.MethodPost, "http://shop.example/payments", strings.NewReader("5"))
		r.Header.Set("Idempotency-Key", key)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	other := gateway(claims(t, tier))
	unknown := 0
	for step := 1; step <= 5; step++ {
		for _, after := range []bool{false, true} {
			key := fmt.Sprintf("step-%d-%v", step, after)
			before := ran.Load()
			store := claims(t, tier)
			status, first := pay(gateway(oncetest.Crash(store, step, after)), key)
			end(store)
			var told [2]int
			for i := range told {
				var text string
				if told[i], text = pay(other, key); status == http.StatusCreated && text != first {
					t.Errorf("%s: the response was %q, and is %q", key, first, text)
				}
			}
			if n := ran.Load() - before; n > 1 || told[0] != told[1] || told[0] != http.StatusCreated && told[0] != http.StatusConflict || n == 0 && told[0] == http.StatusCreated {
				t.Errorf("%s: ran %d times, first %d, then %v; want at most once, and the same twice", key, n, status, told)
			}
			if told[0] == http.StatusConflict {
				unknown++
			}
		}
	}
	if unknown == 0 || unknown == 10 {
		t.Errorf("%d of 10 are unknown; want some", unknown)
	}
	t.Logf("%d of 10 are unknown", unknown)
}

// Many clients send each payment to both gateways at the same time: all have the one response.
func TestH45_BothGatewaysAtTheSameTime(t *testing.T) {
	s := redistest.Start(t, redistest.Redis(t))
	var ran atomic.Int64
	var gateways [2]*httptest.Server
	for i := range gateways {
		h, err := weirhttp.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(20 * time.Millisecond) // both have the request meanwhile
			fmt.Fprintf(w, "%s %d", r.Header.Get("Idempotency-Key"), ran.Add(1))
		}), weirhttp.Options{Route: "pay", Idempotency: &weirhttp.IdempotencyPolicy{Claims: once.NewClaims(claims(t, open(t, s))), Unknown: weirhttp.UnknownRefuse}})
		if err != nil {
			t.Fatal(err)
		}
		gateways[i] = httptest.NewServer(h)
		t.Cleanup(gateways[i].Close)
	}
	const payments = 30
	got := make(chan string, 4*payments)
	for n := range 4 * payments {
		go func() {
			r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, gateways[n%2].URL, nil)
			r.Host = "shop.example"
			r.Header.Set("Idempotency-Key", fmt.Sprint("k", n/4))
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				got <- err.Error()
				return
			}
			defer resp.Body.Close()
			text := make([]byte, 100)
			m, _ := resp.Body.Read(text)
			got <- fmt.Sprint(resp.StatusCode, " ", string(text[:m]))
		}()
	}
	all := map[string]int{}
	for range 4 * payments {
		all[<-got]++
	}
	if len(all) != payments || ran.Load() != payments {
		t.Errorf("%d different responses, and %d calls, for %d payments: %v", len(all), ran.Load(), payments, all)
	}
}
