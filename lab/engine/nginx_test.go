package engine_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/lab/engine"
)

// upstream returns the address of a server that responds with name, and the count of
// connections made to it.
func upstream(t *testing.T, name string) (addr string, conns *atomic.Int64) {
	t.Helper()
	conns = new(atomic.Int64)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, name+" "+r.Proto)
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	return s.Listener.Addr().String(), conns
}

func startNginx(t *testing.T, o engine.NginxOptions) *engine.Server {
	t.Helper()
	need(t, "nginx")
	s, err := engine.Nginx(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func fetch(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestNginxBalances(t *testing.T) {
	tests := []struct {
		name      string
		keepalive int
		wantConns int64 // to each upstream, for ten requests to each
	}{
		{"keeping connections", 0, 1},
		{"without", -1, 10},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, aConns := upstream(t, "a")
			b, bConns := upstream(t, "b")
			s := startNginx(t, engine.NginxOptions{Upstreams: []string{a, b}, Keepalive: tt.keepalive})
			got := map[string]int{}
			for range 20 {
				got[fetch(t, s.URL)]++
			}
			if got["a HTTP/1.1"] != 10 || got["b HTTP/1.1"] != 10 {
				t.Errorf("responses of 20: %v; want 10 of each upstream, over HTTP/1.1", got)
			}
			if a, b := aConns.Load(), bConns.Load(); a != tt.wantConns || b != tt.wantConns {
				t.Errorf("connections to the upstreams: %d and %d; want %d each", a, b, tt.wantConns)
			}
		})
	}
}

func TestNginxConfig(t *testing.T) {
	s := startNginx(t, engine.NginxOptions{Config: func(listen string) string {
		return "server { listen " + listen + "; location / { return 200 mine; } }\n"
	}})
	if got := fetch(t, s.URL); got != "mine" {
		t.Errorf("response %q; want that of Config", got)
	}
}

// children returns the ids of pid's children.
func children(t *testing.T, pid int) []int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", pid))
	if err != nil {
		t.Skip(err) // not Linux
	}
	var found []int
	for _, field := range strings.Fields(string(b)) {
		var id int
		fmt.Sscan(field, &id)
		found = append(found, id)
	}
	return found
}

func TestNginxStopLeavesNothing(t *testing.T) {
	dir := temp(t)
	a, _ := upstream(t, "a")
	s := startNginx(t, engine.NginxOptions{Upstreams: []string{a}, Workers: 3})
	fetch(t, s.URL)
	pids := append(children(t, s.Pid()), s.Pid())
	for deadline := time.Now().Add(30 * time.Second); len(pids) != 4; {
		if time.Now().After(deadline) {
			t.Fatalf("processes %v; want a master and three workers", pids)
		}
		time.Sleep(time.Millisecond) // one worker can respond before the others have been forked
		pids = append(children(t, s.Pid()), s.Pid())
	}
	for range 2 {
		if err := s.Stop(); err != nil {
			t.Errorf("Stop = %v; want nil", err)
		}
	}
	for _, pid := range pids {
		if !gone(pid) {
			t.Errorf("process %d still runs", pid)
		}
	}
	if left := entries(t, dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A signal that nginx gets before it has workers is lost.
func TestNginxIsReadyOnceItHasWorkers(t *testing.T) {
	for range 10 {
		s := startNginx(t, engine.NginxOptions{Upstreams: []string{"127.0.0.1:9"}})
		if len(children(t, s.Pid())) == 0 {
			t.Fatal("started without a worker")
		}
		s.Stop()
	}
}

func TestNginxKilledProgramLeavesNothing(t *testing.T) {
	dir := temp(t)
	if pid := killedProgram(t, "nginx"); !gone(pid) {
		t.Errorf("process %d still runs", pid)
	}
	a, _ := upstream(t, "a")
	startNginx(t, engine.NginxOptions{Upstreams: []string{a}}).Stop()
	if left := entries(t, dir); len(left) > 0 {
		t.Errorf("left behind after the next start: %v", left)
	}
}

func TestNginxFailedStartSaysWhatTheServerSaid(t *testing.T) {
	need(t, "nginx")
	dir := temp(t)
	_, err := engine.Nginx(t.Context(), engine.NginxOptions{Config: func(string) string { return "no_such_directive;\n" }})
	if err == nil || !strings.Contains(err.Error(), "no_such_directive") {
		t.Errorf("Nginx = %v; want the server's own message", err)
	}
	if left := entries(t, dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestNginxOptionsAreChecked(t *testing.T) {
	tests := []struct {
		options engine.NginxOptions
		want    []string
	}{
		{engine.NginxOptions{}, []string{"Upstreams is empty"}},
		{engine.NginxOptions{Upstreams: []string{"a", "b:1; x"}, Workers: -1}, []string{`"a"`, `"b:1; x"`, "Workers is -1"}},
		{engine.NginxOptions{Upstreams: []string{"a;b:1"}}, []string{`"a;b:1"`}},
	}
	for _, tt := range tests {
		_, err := engine.Nginx(t.Context(), tt.options)
		if err == nil || errors.Is(err, engine.ErrMissing) {
			t.Errorf("Nginx(%v) = %v; want the fault of the options", tt.options, err)
			continue
		}
		for _, want := range tt.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("Nginx(%v) = %v; want it to say %q", tt.options, err, want)
			}
		}
	}
}
