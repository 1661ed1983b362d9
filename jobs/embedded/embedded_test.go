package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/embedded"
)

var levels = []jobs.Durability{jobs.DurabilityProcess, jobs.DurabilityDisk}

func TestRestartKeepsWhatWasAcknowledged(t *testing.T) {
	for _, level := range levels {
		t.Run(level.String(), func(t *testing.T) {
			dir := t.TempDir()
			s := start(t, embedded.Options{Dir: dir, Durability: level})
			if got := s.Durability(); got != level {
				t.Errorf("Durability = %v; want %v", got, level)
			}
			js := connect(t, s)
			makeStream(t, js)
			for i := range 10 {
				if _, err := js.Publish(t.Context(), "t.a", fmt.Append(nil, i)); err != nil {
					t.Fatalf("Publish(%d) = %v; want nil", i, err)
				}
			}
			js.Conn().Close()
			for range 2 {
				if err := s.Close(context.Background()); err != nil {
					t.Fatalf("Close = %v; want nil", err)
				}
			}

			js = connect(t, start(t, embedded.Options{Dir: dir, Durability: level}))
			if got := messages(t, js); got != 10 {
				t.Errorf("messages after the restart = %d; want 10", got)
			}
		})
	}
}

func TestDurabilityIsDiskUnlessSaid(t *testing.T) {
	s := start(t, embedded.Options{Dir: t.TempDir()})
	if got := s.Durability(); got != jobs.DurabilityDisk {
		t.Errorf("Durability = %v; want %v", got, jobs.DurabilityDisk)
	}
}

func TestFolderIsItsOwnersOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	start(t, embedded.Options{Dir: dir})
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o700 {
		t.Errorf("mode of the folder = %o; want 700", got)
	}
}

func TestFolderHasOneServerAtATime(t *testing.T) {
	dir := t.TempDir()
	s := start(t, embedded.Options{Dir: dir})
	_, err := embedded.Start(embedded.Options{Dir: dir})
	if !errors.Is(err, embedded.ErrInUse) {
		t.Fatalf("second Start = %v; want %v", err, embedded.ErrInUse)
	}
	if pid := fmt.Sprint("by process ", os.Getpid()); !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), pid) {
		t.Errorf("second Start = %q; want it to name %q and %q", err, dir, pid)
	}
	if err := s.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	start(t, embedded.Options{Dir: dir})
}

func TestWithoutListenNobodyElseReachesIt(t *testing.T) {
	s := start(t, embedded.Options{Dir: t.TempDir()})
	if got := s.Addr(); got != "" {
		t.Errorf("Addr = %q; want none", got)
	}
}

func TestOthersReachItWhereItListens(t *testing.T) {
	s := start(t, embedded.Options{Dir: t.TempDir(), Listen: "127.0.0.1:0"})
	makeStream(t, connect(t, s))
	nc, err := nats.Connect(s.Addr())
	if err != nil {
		t.Fatalf("nats.Connect(%q) = %v; want nil", s.Addr(), err)
	}
	defer nc.Close()
	if got := messages(t, newJetStream(t, nc)); got != 0 {
		t.Errorf("messages = %d; want 0", got)
	}
}

func TestTokenIsAskedOfOthers(t *testing.T) {
	s := start(t, embedded.Options{Dir: t.TempDir(), Listen: "0.0.0.0:0", Token: "s3cret"})
	makeStream(t, connect(t, s)) // not a stream of weir

	for _, token := range []string{"", "s3cre", "s3cret2"} {
		nc, err := nats.Connect(s.Addr(), nats.Token(token))
		if !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("Connect with token %q = %v; want %v", token, err, nats.ErrAuthorization)
		}
		if nc != nil {
			nc.Close()
		}
	}
	nc, err := nats.Connect(s.Addr(), nats.Token("s3cret"))
	if err != nil {
		t.Fatalf("Connect with the token = %v; want nil", err)
	}
	nc.Close()
}

func TestStartNamesWhatIsInItsWay(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		o    embedded.Options
		want string
	}{
		"port taken": {embedded.Options{Dir: t.TempDir(), Listen: taken.Addr().String()}, "address already in use"},
		"a file":     {embedded.Options{Dir: file}, "not a directory"},
		"in a file":  {embedded.Options{Dir: filepath.Join(file, "x")}, "not a directory"},
	} {
		if _, err := embedded.Start(row.o); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: Start = %v; want an error with %q", name, err, row.want)
		}
	}
	wantNoGoroutines(t)
}

func TestStartFailsWhereAStreamIsLost(t *testing.T) {
	dir := t.TempDir()
	s := start(t, embedded.Options{Dir: dir})
	js := connect(t, s)
	makeStream(t, js)
	if _, err := js.Publish(t.Context(), "t.a", nil); err != nil {
		t.Fatal(err)
	}
	js.Conn().Close()
	if err := s.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	meta := filepath.Join(dir, "jetstream", "$G", "streams", "T", "meta.inf")
	if err := os.WriteFile(meta, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := embedded.Start(embedded.Options{Dir: dir})
	for _, want := range []string{"stream T was not recovered", "checksums do not match"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Start = %v; want an error with %q", err, want)
		}
	}
	wantNoGoroutines(t)
}

func TestCloseLeavesNothingRunning(t *testing.T) {
	s := start(t, embedded.Options{Dir: t.TempDir(), Listen: "127.0.0.1:0"})
	js := connect(t, s)
	makeStream(t, js)
	if _, err := js.Publish(t.Context(), "t.a", nil); err != nil {
		t.Fatal(err)
	}
	js.Conn().Close()
	if err := s.Close(context.Background()); err != nil {
		t.Fatalf("Close = %v; want nil", err)
	}
	wantNoGoroutines(t)
	if _, err := s.Connect(); err == nil {
		t.Error("Connect after Close = nil; want an error")
	}
}
