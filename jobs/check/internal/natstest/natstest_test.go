package natstest_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weir-go/weir/jobs/check/internal/natstest"
)

// orphanEnv makes TestOrphanHelper a parent that is killed while its server runs.
const orphanEnv = "WEIR_NATSTEST_ORPHAN"

func TestMain(m *testing.M) { natstest.Main(m) }

// patience is how long a test waits for something that must happen, on a busy
// machine. An election alone can take nine seconds.
const patience = 30 * time.Second

func makeStream(t *testing.T, nc *nats.Conn, replicas int) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err = js.CreateStream(ctx, jetstream.StreamConfig{Name: "T", Subjects: []string{"t.>"}, Replicas: replicas})
	if err != nil {
		t.Fatalf("CreateStream = %v; want nil", err)
	}
	return js
}

// publish publishes one message to a server that responds.
func publish(t *testing.T, js jetstream.JetStream) error { return publishWithin(t, js, patience) }

// briefly is publish for a server that may not respond.
func briefly(t *testing.T, js jetstream.JetStream) error { return publishWithin(t, js, time.Second) }

func publishWithin(t *testing.T, js jetstream.JetStream, d time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	_, err := js.Publish(ctx, "t.a", make([]byte, 1<<10))
	return err
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(patience)
	for !holds() {
		select {
		case <-deadline:
			t.Fatalf("not within %v: %s", patience, what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func messages(t *testing.T, js jetstream.JetStream) uint64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	st, err := js.Stream(ctx, "T")
	if err != nil {
		t.Fatalf("Stream = %v; want nil", err)
	}
	return st.CachedInfo().State.Msgs
}

func TestKillAndRestartKeepAddressAndMessages(t *testing.T) {
	for _, sync := range []bool{false, true} {
		t.Run(fmt.Sprint("sync=", sync), func(t *testing.T) {
			s := natstest.Start(t, natstest.Options{Sync: sync})
			url := s.URL()
			js := makeStream(t, s.Connect(), 1)
			for i := range 3 {
				// A message in flight when the server ended gets no acknowledgement.
				eventually(t, fmt.Sprintf("message %d is accepted", i), func() bool { return briefly(t, js) == nil })
				switch i {
				case 0:
					s.Kill()
					s.Kill() // no process to kill
					if err := briefly(t, js); err == nil {
						t.Error("Publish without a server = nil; want an error")
					}
				case 1:
					s.Stop()
				}
				s.Restart()
			}
			eventually(t, "connected again", func() bool { return js.Conn().Status() == nats.CONNECTED })
			if got := messages(t, js); got < 3 || s.URL() != url {
				t.Errorf("messages = %d at %s; want 3 or more at %s", got, s.URL(), url)
			}
		})
	}
}

func TestPauseAndContinue(t *testing.T) {
	s := natstest.Start(t, natstest.Options{})
	js := makeStream(t, s.Connect(), 1)
	s.Pause()
	if err := briefly(t, js); err == nil {
		t.Error("Publish to a paused server = nil; want an error")
	}
	s.Continue()
	if err := publish(t, js); err != nil {
		t.Errorf("Publish to a continued server = %v; want nil", err)
	}
}

func TestMaxStoreRefuses(t *testing.T) {
	s := natstest.Start(t, natstest.Options{MaxStore: 64 << 10})
	js := makeStream(t, s.Connect(), 1)
	var err error
	n := 0
	for ; err == nil && n < 100; n++ {
		err = publish(t, js)
	}
	if err == nil || !strings.Contains(err.Error(), "10023") || n < 50 {
		t.Errorf("message %d of 1 KiB into 64 KiB = %v; want JetStream's error 10023 after about 60", n, err)
	}
}

func TestLimitFiles(t *testing.T) {
	s := natstest.Start(t, natstest.Options{})
	js := makeStream(t, s.Connect(), 1)
	s.LimitFiles(0)
	if err := briefly(t, js); err == nil {
		t.Error("Publish to a disk that accepts no writes = nil; want an error")
	}
	if got := s.Said(); !strings.Contains(got, "file too large") {
		t.Errorf("the server logged %q; want a failed write", got)
	}
	s.Restart()
	eventually(t, "accepted again", func() bool { return briefly(t, js) == nil })
}

func TestClusterSurvivesItsLeader(t *testing.T) {
	c := natstest.StartCluster(t, 3)
	js := makeStream(t, c.Connect(), 3)
	for i := range 2 {
		leader := c.Leader(t.Context(), "T")
		if leader < 0 {
			t.Fatalf("Leader = %d; want one", leader)
		}
		if i == 1 {
			c.Server(leader).Pause()
		} else {
			c.Server(leader).Kill()
		}
		eventually(t, "a write succeeds without the old leader", func() bool { return briefly(t, js) == nil })
		if got := c.Leader(t.Context(), "T"); got == leader || got < 0 {
			t.Errorf("Leader after the end of %d = %d; want another", leader, got)
		}
		c.Server(leader).Restart()
	}
	if got := messages(t, js); got < 2 {
		t.Errorf("messages = %d; want 2 or more", got)
	}
}

func TestLeaderOfNoStream(t *testing.T) {
	c := natstest.StartCluster(t, 3)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if got := c.Leader(ctx, "none"); got != -1 {
		t.Errorf("Leader = %d; want -1", got)
	}
}

// TestOrphanHelper is not a test but the parent in TestServersEndWithTheBinary: it
// prints the address of its paused server, and waits to be killed.
func TestOrphanHelper(t *testing.T) {
	if os.Getenv(orphanEnv) == "" {
		return
	}
	s := natstest.Start(t, natstest.Options{})
	fmt.Println(s.URL())
	s.Pause()
	fmt.Println("paused")
	select {}
}

func TestServersEndWithTheBinary(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestOrphanHelper$")
	cmd.Env = append(os.Environ(), orphanEnv+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var url, paused string
	if _, err := fmt.Fscanln(out, &url); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fscanln(out, &paused); err != nil || paused != "paused" {
		t.Fatalf("the parent printed %q, %v; want paused", paused, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	eventually(t, "the port of the orphan is closed", func() bool {
		return !listening(url)
	})
}

// listening reports whether connections are accepted, even if only by the system on
// behalf of a stopped process.
func listening(url string) bool {
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "nats://"))
	if err == nil {
		conn.Close()
	}
	return err == nil
}
