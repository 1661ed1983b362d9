package embedded_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/embedded"
)

// publishBatch publishes an atomic batch of n messages. Only the last one gets a
// reply.
func publishBatch(ctx context.Context, nc *nats.Conn, id string, n int) error {
	for i := 1; i <= n; i++ {
		m := nats.NewMsg("t." + id)
		m.Header.Set("Nats-Batch-Id", id)
		m.Header.Set("Nats-Batch-Sequence", fmt.Sprint(i))
		if i < n {
			if err := nc.PublishMsg(m); err != nil {
				return err
			}
			continue
		}
		m.Header.Set("Nats-Batch-Commit", "1")
		reply, err := nc.RequestMsgWithContext(ctx, m)
		if err != nil {
			return err
		}
		if bytes.Contains(reply.Data, []byte(`"error"`)) {
			return errors.New(string(reply.Data))
		}
	}
	return nil
}

func TestManyAtomicBatchesAtOnce(t *testing.T) {
	s := start(t, embedded.Options{Dir: t.TempDir(), Durability: jobs.DurabilityProcess})
	js := connect(t, s)
	makeStream(t, js)

	// The same number of batches stays open all the time, each with only its first
	// message.
	const batches = 80
	sizeOf := func(i int) int {
		if i%10 == 0 {
			return 1000
		}
		return 10
	}
	var wg sync.WaitGroup
	errs := make([]error, batches)
	for i := range batches {
		m := nats.NewMsg(fmt.Sprintf("t.open%d", i))
		m.Header.Set("Nats-Batch-Id", fmt.Sprintf("open%d", i))
		m.Header.Set("Nats-Batch-Sequence", "1")
		if reply, err := js.Conn().RequestMsgWithContext(t.Context(), m); err != nil || len(reply.Data) > 0 {
			t.Fatalf("opening batch %d = %s, %v; want an empty reply", i, reply.Data, err)
		}
	}
	for i := range batches {
		wg.Go(func() {
			nc, err := s.Connect()
			if err != nil {
				errs[i] = err
				return
			}
			defer nc.Close()
			errs[i] = publishBatch(t.Context(), nc, fmt.Sprintf("b%d", i), sizeOf(i))
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatalf("batches = %v; want nil", err)
	}
	want := 0
	for i := range batches {
		want += sizeOf(i)
	}
	if got := messages(t, js); got != want {
		t.Errorf("messages = %d; want %d", got, want)
	}
}

func TestLargestPayloadsPass(t *testing.T) {
	s := start(t, embedded.Options{Dir: t.TempDir(), Durability: jobs.DurabilityProcess, Listen: "127.0.0.1:0"})
	js := connect(t, s)
	makeStream(t, js)
	payload := bytes.Repeat([]byte{7}, jobs.MaxPayload)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for i := range 3 {
		if _, err := js.Publish(ctx, "t.large", payload); err != nil {
			t.Fatalf("Publish(%d) of %d bytes = %v; want nil", i, len(payload), err)
		}
	}
	st, err := js.Stream(t.Context(), "T")
	if err != nil {
		t.Fatal(err)
	}
	direct, err := st.GetLastMsgForSubject(ctx, "t.large")
	if err != nil || !bytes.Equal(direct.Data, payload) {
		t.Errorf("GetLastMsgForSubject = %v; want the payload", err)
	}
	// Messages that a worker fetches at once wait in the server for its connection,
	// which is slow here.
	slow := &slowDialer{}
	nc, err := nats.Connect(s.Addr(), nats.SetCustomDialer(slow), nats.NoReconnect())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	c, err := newJetStream(t, nc).CreateConsumer(ctx, "T", jetstream.ConsumerConfig{Durable: "C", AckPolicy: jetstream.AckExplicitPolicy})
	if err != nil {
		t.Fatal(err)
	}
	fetched, err := c.Fetch(3, jetstream.FetchMaxWait(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	slow.wait.Store(int64(time.Second))
	n := 0
	for m := range fetched.Messages() {
		if bytes.Equal(m.Data(), payload) {
			n++
		}
	}
	if n != 3 || fetched.Error() != nil {
		t.Errorf("fetched %d, %v; want 3, nil", n, fetched.Error())
	}
}

// A slowDialer opens connections that, once, read nothing for a while.
type slowDialer struct{ wait atomic.Int64 }

func (d *slowDialer) Dial(network, address string) (net.Conn, error) {
	conn, err := net.Dial(network, address)
	return &slowConn{conn, d}, err
}

type slowConn struct {
	net.Conn
	d *slowDialer
}

func (c *slowConn) Read(p []byte) (int, error) {
	<-time.After(time.Duration(c.d.wait.Swap(0)))
	return c.Conn.Read(p)
}

// wantAPIError fails the test unless err is a JetStream error with one of the codes.
func wantAPIError(t *testing.T, what string, err error, codes ...jetstream.ErrorCode) {
	t.Helper()
	var api *jetstream.APIError
	if errors.As(err, &api) {
		for _, code := range codes {
			if api.ErrorCode == code {
				return
			}
		}
	}
	t.Errorf("%s = %v; want JetStream's error %v", what, err, codes)
}

func TestMaxBytesBoundsTheStore(t *testing.T) {
	dir := t.TempDir()
	s := start(t, embedded.Options{Dir: dir, Durability: jobs.DurabilityProcess, MaxBytes: 4 << 20})
	js := connect(t, s)
	makeStream(t, js)
	payload := make([]byte, 256<<10)
	accepted := 0
	var err error
	for range 32 {
		if _, err = js.Publish(t.Context(), "t.a", payload); err != nil {
			break
		}
		accepted++
	}
	wantAPIError(t, "Publish into a full store", err, 10023)
	if got := messages(t, js); got != accepted || got < 15 || got > 17 {
		t.Errorf("messages = %d, accepted %d; want equal numbers of about 16", got, accepted)
	}
	if err := purge(t, js); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "t.a", payload); err != nil {
		t.Errorf("Publish with room again = %v; want nil", err)
	}
}

func purge(t *testing.T, js jetstream.JetStream) error {
	t.Helper()
	st, err := js.Stream(t.Context(), "T")
	if err != nil {
		return err
	}
	return st.Purge(t.Context())
}
