package proxy_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// previous returns the program of an earlier commit, which tools/gate builds.
func previous(t *testing.T) string {
	t.Helper()
	program := os.Getenv("WEIR_TEST_PREVIOUS")
	if program == "" {
		t.Skip("WEIR_TEST_PREVIOUS does not name the program of an earlier commit")
	}
	return program
}

// bothOrders runs a test with the earlier program first, and then with this one first.
func bothOrders(t *testing.T, test func(t *testing.T, first, second string)) {
	before := previous(t)
	t.Run("upgrade", func(t *testing.T) { test(t, before, os.Args[0]) })
	t.Run("downgrade", func(t *testing.T) { test(t, os.Args[0], before) })
}

// Two versions share an engine: each serves what the other has stored, and neither
// serves what the other has purged.
func TestVersionsShareAnEngine(t *testing.T) {
	bothOrders(t, func(t *testing.T, first, second string) {
		program, addr := redisServer(t), free(t)
		startRedis(t, program, addr, "secret-of-redis")
		origin, calls := versions(t)
		file := fleetConfig(t, origin.URL, addr, "secret-of-redis")
		pair := []*process{
			runProgram(t, first, nil, "proxy", "--config", file).ready(),
			runProgram(t, second, nil, "proxy", "--config", file).ready(),
		}
		for i, from := range pair {
			to, path := pair[1-i], fmt.Sprintf("/page%d", i)
			stored, _ := ask(from.listen[0]+path, "")
			n := calls.Load()
			if got, h := ask(to.listen[0]+path, ""); got.status != 200 || got.body != stored.body || calls.Load() != n || !strings.Contains(h.Get("Cache-Status"), "detail=fleet") {
				t.Errorf("%s is %+v from the other, %v; want %q, from the fleet", path, got, h, stored.body)
			}
			if status, text := purged(t, to.admin, path); status != http.StatusOK {
				t.Errorf("the purge of %s is %d: %s", path, status, text)
			}
			for _, p := range []*process{to, from} { // the one that purged does so at once, the other after the push
				until(t, path+" after its purge", func() bool {
					got, _ := ask(p.listen[0]+path, "")
					return got.status == 200 && got.body != stored.body
				})
			}
		}
	})
}

// J1: a version takes over the jobs of another version that accepted them and was
// killed, and finishes them.
func TestJ1_VersionsShareAFolder(t *testing.T) {
	bothOrders(t, func(t *testing.T, first, second string) {
		s := newShop(t)
		file := jobsConfig(t, t.TempDir(), s.URL, ", concurrency: 2", brief)
		p := runProgram(t, first, nil, "proxy", "--config", file).ready()
		done := later(t, p.listen[0]+"/quick", "Idempotency-Key: done")
		if a := result(t, p.listen[0], done); a.status != 200 {
			t.Fatalf("the result = %+v; want 200", a)
		}
		var paths []string
		for i := range 6 {
			paths = append(paths, later(t, fmt.Sprint(p.listen[0], "/slow/", i), fmt.Sprint("Idempotency-Key: k", i)))
		}
		s.arrives(t, 3) // quick, and two that are running
		p.signal(syscall.SIGKILL)
		<-p.exited

		p = runProgram(t, second, nil, "proxy", "--config", file).ready()
		close(s.may)
		for i, path := range append(paths, done) {
			if a := result(t, p.listen[0], path); a.status != 200 {
				t.Errorf("the result of %d = %+v; want 200", i, a)
			}
		}
		if a := jobCall(t, "POST", p.listen[0]+"/slow/0", "in", "Idempotency-Key: k0", "Prefer: respond-async, wait=20"); a.status != 200 {
			t.Errorf("the same key at the other version gets %+v; want the job's result", a)
		}
		p.signal(syscall.SIGTERM)
		p.ends(0)
	})
}

// J1: a worker executes the jobs of a proxy of another version.
func TestJ1_VersionsShareAServer(t *testing.T) {
	bothOrders(t, func(t *testing.T, first, second string) {
		s, dir := newShop(t), t.TempDir()
		file := jobsConfig(t, dir, s.URL, ", workers: false, token_file: token, listen: \""+free(t)+"\"", brief)
		if err := os.WriteFile(filepath.Join(dir, "token"), []byte("0123456789abcdef\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		p := runProgram(t, first, nil, "proxy", "--config", file).ready()
		w := runProgram(t, second, nil, "worker", "--config", file, "--concurrency", "2")
		w.await(`"msg":"ready"`, 1)
		for i := range 5 {
			path := later(t, fmt.Sprint(p.listen[0], "/quick/", i), fmt.Sprint("Idempotency-Key: k", i))
			if a := result(t, p.listen[0], path); a.status != 200 || a.body != fmt.Sprintf("/quick/%d attempt 1", i) {
				t.Errorf("the result = %+v; want the first attempt's", a)
			}
		}
		w.signal(syscall.SIGTERM)
		w.ends(0)
	})
}
