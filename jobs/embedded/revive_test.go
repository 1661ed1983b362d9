package embedded_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weir-go/weir/jobs"
)

// limit limits the program's files to n bytes.
func (p *program) limit(t *testing.T, n uint64) {
	t.Helper()
	p.tell(t, fmt.Sprint(n), "limited")
}

func connectTo(t *testing.T, addr string) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(addr, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// publish waits for only one second, because JetStream does not report a failed
// write.
func publish(t *testing.T, nc *nats.Conn, subject string, payload []byte) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := newJetStream(t, nc).Publish(ctx, subject, payload)
	return err
}

// publish waits until the program logs a failed write, or until the test's patience
// ends.
func (p *program) publish(t *testing.T, nc *nats.Conn, subject string, payload []byte) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	go func() { // ends when Publish returns
		for ctx.Err() == nil && !p.said.has("a write has failed") {
			<-time.After(10 * time.Millisecond)
		}
		cancel()
	}()
	_, err := newJetStream(t, nc).Publish(ctx, subject, payload)
	return err
}

func TestWriteThatFailsIsSurvived(t *testing.T) {
	for _, level := range levels {
		t.Run(level.String(), func(t *testing.T) {
			p := startProgram(t, t.TempDir(), level)
			nc := connectTo(t, p.addr)
			js := newJetStream(t, nc)
			makeStream(t, js)

			p.limit(t, 256<<10)
			payload := make([]byte, 60<<10)
			accepted := 0
			for accepted < 8 && p.publish(t, nc, "t.a", payload) == nil {
				accepted++
			}
			if accepted == 0 || accepted == 8 {
				t.Fatalf("%d of 8 messages of 60 KiB were accepted into 256 KiB; want some", accepted)
			}
			eventually(t, "the failed write is detected", func() bool { return p.said.has("a write has failed") })
			p.limit(t, math.MaxUint64)
			// The address must be unchanged, or the server could not be reached here.
			eventually(t, "writes are accepted again", func() bool { return publish(t, nc, "t.b", nil) == nil })
			st, err := js.Stream(t.Context(), "T")
			if err != nil {
				t.Fatal(err)
			}
			for i := range accepted {
				if m, err := st.GetMsg(t.Context(), uint64(i+1)); err != nil || len(m.Data) != len(payload) {
					t.Errorf("GetMsg(%d) = %v; want what was acknowledged", i+1, err)
				}
			}
		})
	}
}

func TestDiskThatTakesNothingIsTriedAgain(t *testing.T) {
	p := startProgram(t, t.TempDir(), jobs.DurabilityDisk)
	nc := connectTo(t, p.addr)
	makeStream(t, newJetStream(t, nc))
	p.limit(t, 0)
	if err := publish(t, nc, "t.a", nil); err == nil {
		t.Fatal("Publish to a disk that accepts no writes = nil; want an error")
	}
	eventually(t, "the server does not start", func() bool {
		return p.said.has("starting the server again") && p.said.has("file too large")
	})
	p.limit(t, math.MaxUint64)
	eventually(t, "writes are accepted again", func() bool { return publish(t, nc, "t.a", nil) == nil })
}

func TestCloseWhileNoServerCanBeStarted(t *testing.T) {
	p := startProgram(t, t.TempDir(), jobs.DurabilityDisk)
	nc := connectTo(t, p.addr)
	makeStream(t, newJetStream(t, nc))
	p.limit(t, 0)
	if err := publish(t, nc, "t.a", nil); err == nil {
		t.Fatal("Publish to a disk that accepts no writes = nil; want an error")
	}
	eventually(t, "the server does not start", func() bool { return p.said.has("starting the server again") })
	p.tell(t, "close", "closed")
}
