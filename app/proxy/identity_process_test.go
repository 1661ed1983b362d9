package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// T11, T15, H34: nothing of what identifies a client is in the engine, in no key and in no
// value: neither for limits by header and by address, nor for responses and reads that are
// separate for each client.
func TestT11_TheEngineHasNoIdentity(t *testing.T) {
	program, addr, dir := redisServer(t), free(t), t.TempDir()
	startRedis(t, program, addr, "secret-of-redis")
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/failed" {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Cache-Control", "public, max-age=600") // else nothing is in Redis
		io.WriteString(w, "a page")
	}))
	t.Cleanup(origin.Close)
	config := `
listen: [{address: 127.0.0.1:0}]
admin: {address: 127.0.0.1:0}
trusted_proxies: [127.0.0.1]
upstreams: [{name: model, servers: ["` + origin.URL + `"], cost: {field: /max, default: 10}}]
routes:
  - {name: token, path: /token, rate: {requests: 10, per: 1h, by: "header:Authorization"}}
  - {name: key, path: /key, rate: {requests: 10, per: 1h, by: "header:X-Api-Key"}}
  - {name: address, path: /address, rate: {requests: 10, per: 1h}}
  - {name: budget, path: /budget, client_budget: {units: 100, per: 24h, by: "header:Authorization", fleet: true}}
  - {name: far, path: /far, client_budget: {units: 100, per: 24h, fleet: true}}
  - {name: vary, path: /vary, cache: {ttl: 1h, vary: [Authorization]}}
  - {name: session, path: /session, cache: {ttl: 1h, vary_cookies: [session]}}
  - {name: read, path: /read, cache: {ttl: 1h}, reads: [{methods: [POST], types: [application/json]}]}
  - {name: refused, path: /refused, rate: {requests: 2, per: 1h, by: "header:Authorization"}}
  - {name: failed, path: /failed, cache: {ttl: 1h, vary_cookies: [session]}}
fleet:
  redis: {addresses: ["` + addr + `"], password_file: password}
  deadline: 5s # the usual one is not kept by a machine that runs all tests at once
  rate_failure: closed
`
	for name, text := range map[string]string{"password": "secret-of-redis\n", "weir.yaml": config} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := start(t, "--config", filepath.Join(dir, "weir.yaml"))
	secrets := []string{"sk-short", "sk-" + strings.Repeat("long", 40), "k-short", "k-" + strings.Repeat("far", 60), "ada-session", "bob-session", "198.51.100.7", "203.0.113.8"}
	names := []string{"Authorization", "X-Api-Key", "Cookie", "X-Forwarded-For"}
	prefixes := []string{"Bearer ", "", "session=", ""}
	send := func(round int, path string, fields ...int) { // the fields that names lists
		t.Helper()
		method, body := "GET", ""
		if path == "/read" {
			method, body = "POST", `{"q":"all"}`
		}
		r, err := http.NewRequest(method, p.listen[0]+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		for _, i := range fields {
			r.Header.Set(names[i], prefixes[i]+secrets[2*i+round%2])
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	for round := range 6 {
		send(round, "/token", 0, 1, 2, 3)
		send(round, "/key", 0, 1, 2, 3)
		send(round, "/address", 0, 1, 2, 3)
		send(round, fmt.Sprint("/budget/", round), 0, 1, 2, 3)
		send(round, fmt.Sprint("/far/", round), 0, 1, 2, 3)
		send(round, "/refused", 0)
		send(round, "/vary", 0)
		send(round, "/session", 2)
		send(round, "/read", 1)
		send(round, "/failed", 2)
	}
	p.signal(os.Interrupt) // all corrections are made
	p.ends(0)

	all := redisContents(t, addr, "secret-of-redis")
	kinds := make(map[string]int)
	for key, value := range all {
		kinds[key[:min(len(key), len("weir:m"))]]++
		for _, secret := range append(secrets, "198.51.100", "Bearer") {
			if strings.Contains(key, secret) || strings.Contains(value, secret) {
				t.Errorf("Redis has %q: %q, which shows %q", key, value, secret)
			}
		}
	}
	// Without these the test would prove nothing.
	if kinds["weir:m"] != 4*2 || kinds["weir:b"] != 2*2 || kinds["weir:e"] < 3 {
		t.Errorf("Redis has %v; want limits (m) of 8 clients, budgets (b) of 4, and responses (e)", kinds)
	}
}

// redisContents returns all keys of a Redis, and their values as one text.
func redisContents(t *testing.T, addr, password string) map[string]string {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	in := bufio.NewReader(c)
	var reply func() []string
	reply = func() []string {
		line, err := in.ReadString('\n')
		if err != nil || len(line) < 3 || line[0] == '-' {
			t.Fatalf("Redis: %q, %v", line, err)
		}
		rest := strings.TrimSpace(line[1:])
		n, _ := strconv.Atoi(rest)
		switch line[0] {
		case '*':
			var all []string
			for range n {
				all = append(all, reply()...)
			}
			return all
		case '$':
			b := make([]byte, n+2)
			if _, err := io.ReadFull(in, b); err != nil {
				t.Fatalf("Redis: %v", err)
			}
			return []string{string(b[:n])}
		}
		return []string{rest}
	}
	do := func(words ...string) []string {
		fmt.Fprintf(c, "*%d\r\n", len(words))
		for _, w := range words {
			fmt.Fprintf(c, "$%d\r\n%s\r\n", len(w), w)
		}
		return reply()
	}
	do("AUTH", password)
	read := map[string][]string{
		"string": {"GET"}, "hash": {"HGETALL"}, "list": {"LRANGE", "0", "-1"}, "zset": {"ZRANGE", "0", "-1"}, "set": {"SMEMBERS"},
	}
	all := make(map[string]string)
	for _, key := range do("KEYS", "*") {
		kind := do("TYPE", key)[0]
		if read[kind] == nil {
			t.Fatalf("%q is a %s", key, kind)
		}
		all[key] = strings.Join(do(append([]string{read[kind][0], key}, read[kind][1:]...)...), "\n")
	}
	return all
}
