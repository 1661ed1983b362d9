package proxy_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/weir-go/weir/jobs"
)

// J1, J23: a worker of a version without headers leaves a job that has some where it is,
// runs all others, and a worker of this version then runs it with its headers.
func TestJ1_VersionsKeepHeaders(t *testing.T) {
	before := previous(t)
	s, dir, addr := newShop(t), t.TempDir(), free(t)
	file := jobsConfig(t, dir, s.URL, ", workers: false, token_file: token, listen: \""+addr+"\"", brief)
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := runProgram(t, os.Args[0], nil, "proxy", "--config", file).ready()
	w := runProgram(t, before, nil, "worker", "--config", file)
	w.await(`"msg":"ready"`, 1)

	conn, err := nats.Connect("nats://"+addr, nats.Token("0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	store, err := jobs.Open(t.Context(), conn, jobs.StoreOptions{Durability: jobs.DurabilityDisk})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close(t.Context())
	q, err := jobs.NewQueue[string, string](t.Context(), store, "all", jobs.QueueOptions{})
	if err != nil {
		t.Fatal(err)
	}
	headers := map[string]string{"tenant": "7"}
	h, err := q.Submit(t.Context(), "not a request", jobs.SubmitOptions{Headers: headers})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		path := later(t, fmt.Sprint(p.listen[0], "/quick/", i), fmt.Sprint("Idempotency-Key: k", i))
		if a := result(t, p.listen[0], path); a.status != 200 {
			t.Errorf("the result of another job = %+v; want 200", a)
		}
	}
	show := runProgram(t, before, nil, "jobs", "show", h.ID(), "--queue", "all",
		"--nats", "nats://"+addr, "--token-file", filepath.Join(dir, "token"))
	show.ends(1)
	if text := show.stderr(); !strings.Contains(text, "2; this program reads 1") { // "has format 2", earlier "has the form 2"
		t.Errorf("the earlier program shows %q; want an error with both formats", text)
	}
	w.signal(syscall.SIGTERM)
	w.ends(0)
	if st, err := h.Status(t.Context()); err != nil || st.State != jobs.StateQueued || st.Attempt != 0 || !maps.Equal(st.Headers, headers) {
		t.Errorf("Status = %+v, %v; want the job as it was submitted", st, err)
	}

	w = runProgram(t, os.Args[0], nil, "worker", "--config", file)
	until(t, "the job has been run", func() bool {
		st, err := h.Status(t.Context())
		return err == nil && st.State == jobs.StateDead && maps.Equal(st.Headers, headers)
	})
	w.signal(syscall.SIGTERM)
	w.ends(0)
}
