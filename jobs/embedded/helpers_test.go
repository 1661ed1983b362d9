package embedded_test

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weir-go/weir/jobs/embedded"
)

// start starts a Server that is closed when the test ends.
func start(t *testing.T, o embedded.Options) *embedded.Server {
	t.Helper()
	s, err := embedded.Start(o)
	if err != nil {
		t.Fatalf("Start(%+v) = %v; want nil", o, err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Errorf("Close = %v; want nil", err)
		}
	})
	return s
}

// connect returns a JetStream client of a server. Its in-process connection is closed
// at the end of the test, before the server.
func connect(t *testing.T, s *embedded.Server) jetstream.JetStream {
	t.Helper()
	nc, err := s.Connect()
	if err != nil {
		t.Fatalf("Connect = %v; want nil", err)
	}
	t.Cleanup(nc.Close)
	return newJetStream(t, nc)
}

func newJetStream(t *testing.T, nc *nats.Conn) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatalf("jetstream.New = %v; want nil", err)
	}
	return js
}

// makeStream creates the stream that tests write to.
func makeStream(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	_, err := js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{
		Name: "T", Subjects: []string{"t.>"}, AllowAtomicPublish: true, AllowDirect: true,
	})
	if err != nil {
		t.Fatalf("CreateOrUpdateStream = %v; want nil", err)
	}
}

// messages returns the number of messages in the stream.
func messages(t *testing.T, js jetstream.JetStream) int {
	t.Helper()
	st, err := js.Stream(t.Context(), "T")
	if err != nil {
		t.Fatalf("Stream = %v; want nil", err)
	}
	return int(st.CachedInfo().State.Msgs)
}

// patience is how long a test waits for something that must happen, even on a busy
// machine.
const patience = 30 * time.Second

// eventually waits until holds returns true.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			t.Fatalf("not within %v: %s", patience, what)
		case <-tick.C:
		}
	}
}

// serverGoroutines returns the stacks of the goroutines of nats-server and of this
// package.
func serverGoroutines() (stacks []string) {
	buf := make([]byte, 4<<20)
	for _, g := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(g, "nats-server/v2/server.") || strings.Contains(g, "jobs/embedded.(") {
			stacks = append(stacks, g)
		}
	}
	return stacks
}

// wantNoGoroutines fails the test unless all server goroutines end.
func wantNoGoroutines(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for stacks := serverGoroutines(); len(stacks) > 0; stacks = serverGoroutines() {
		select {
		case <-ctx.Done():
			t.Fatalf("%d goroutines left; want 0:\n%s", len(stacks), strings.Join(stacks, "\n\n"))
		case <-time.After(10 * time.Millisecond):
		}
	}
}
