package engine_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/lab/engine"
	"github.com/weir-go/weir/lab/internal/resp"
)

// startRedis starts Redis or Valkey.
func startRedis(t *testing.T, o engine.RedisOptions) *engine.Server {
	t.Helper()
	name := "redis"
	if o.Valkey {
		name = "valkey"
	}
	need(t, name)
	s, err := engine.Redis(t.Context(), o)
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

// do sends a command, which must succeed.
func do(t *testing.T, s *engine.Server, args ...string) any {
	t.Helper()
	v, err := resp.Ask(t.Context(), s.URL, args...)
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return v
}

func TestRedisIsThrowAway(t *testing.T) {
	for _, valkey := range []bool{false, true} {
		t.Run(map[bool]string{false: "redis", true: "valkey"}[valkey], func(t *testing.T) {
			if valkey {
				needOrSay(t, "valkey")
			}
			s := startRedis(t, engine.RedisOptions{Valkey: valkey, Args: []string{"--maxmemory", "7mb"}})
			for setting, want := range map[string]string{"save": "", "appendonly": "no", "bind": "127.0.0.1", "maxmemory": "7340032"} {
				got := do(t, s, "CONFIG", "GET", setting).([]any)
				if len(got) != 2 || got[1] != want {
					t.Errorf("%s is %v; want %q", setting, got, want)
				}
			}
		})
	}
}

// needOrSay skips the test on a machine without the engine even if engines are
// required, when the program that starts the tests has reported it as omitted.
func needOrSay(t *testing.T, name string) {
	t.Helper()
	if err := engine.Installed(name); err != nil {
		t.Skip("not available: ", err)
	}
}

func TestRedisStopLeavesNothing(t *testing.T) {
	dir := temp(t)
	s := startRedis(t, engine.RedisOptions{})
	pid := s.Pid()
	if err := s.Pause(); err != nil { // while paused it cannot react to a request to end
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Stop(); err != nil {
			t.Errorf("Stop = %v; want nil", err)
		}
	}
	if !gone(pid) {
		t.Errorf("process %d still runs", pid)
	}
	if left := entries(t, dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if err := s.Restart(t.Context()); err == nil {
		t.Error("Restart after Stop = nil; want an error")
	}
}

func TestRedisKilledProgramLeavesNoProcess(t *testing.T) {
	temp(t)
	if pid := killedProgram(t, "redis"); !gone(pid) {
		t.Errorf("process %d still runs", pid)
	}
}

func TestRedisFaults(t *testing.T) {
	s := startRedis(t, engine.RedisOptions{})
	do(t, s, "SET", "k", "v")

	if err := s.Pause(); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := resp.Ask(short, s.URL, "GET", "k"); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("GET while it is paused = %v; want no reply", err)
	}
	if err := s.Continue(); err != nil {
		t.Fatal(err)
	}
	if v := do(t, s, "GET", "k"); v != "v" {
		t.Errorf("GET after a pause = %v; want v", v)
	}

	pid, url := s.Pid(), s.URL
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if !gone(pid) {
		t.Errorf("process %d still runs", pid)
	}
	if _, err := resp.Ask(t.Context(), url, "PING"); err == nil {
		t.Error("PING after Kill = nil; want a refused connection")
	}
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if v := do(t, s, "GET", "k"); v != nil || s.URL != url || s.Pid() == pid {
		t.Errorf("after Restart GET = %v at %s; want nothing, at %s, by another process", v, s.URL, url)
	}
}

func TestRedisClusterFailsOver(t *testing.T) {
	need(t, "redis")
	dir := temp(t)
	c, err := engine.RedisCluster(t.Context(), engine.RedisClusterOptions{Replicas: 1, NodeTimeout: 500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Stop()
	if n := len(c.Masters(t.Context())); n != 3 || len(c.Addrs()) != 6 {
		t.Errorf("%d masters of %d nodes; want 3 of 6", n, len(c.Addrs()))
	}
	for _, n := range c.Nodes {
		info := do(t, n, "CLUSTER", "INFO").(string)
		for _, want := range []string{"cluster_state:ok", "cluster_slots_ok:16384", "cluster_known_nodes:6", "cluster_size:3"} {
			if !strings.Contains(info, want) {
				t.Errorf("%s says %q; want %s", n.URL, info, want)
			}
		}
	}

	if err := c.Nodes[0].Kill(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		masters := c.Masters(t.Context())
		if len(masters) == 3 && masters[2] == c.Nodes[3] {
			break // its replica
		}
		if time.Now().After(end) {
			t.Fatalf("after 20 s the masters are %d nodes; want 3, with the replica of the killed one", len(masters))
		}
	}
	if err := c.Stop(); err != nil {
		t.Error(err)
	}
	if left := entries(t, dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestRedisClusterOptions(t *testing.T) {
	_, err := engine.RedisCluster(t.Context(), engine.RedisClusterOptions{Masters: 2, Replicas: -1, NodeTimeout: time.Microsecond})
	for _, field := range []string{"Masters", "Replicas", "NodeTimeout"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("RedisCluster = %v; want an error that names %s", err, field)
		}
	}
}
