package natstest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A Cluster is a group of servers that replicate streams, each in a separate process.
type Cluster struct {
	t       testing.TB
	servers []*Server
}

// startTries is how often the start of a cluster is tried. The ports of its routes
// are chosen before the servers open them, so another program can take one first.
const startTries = 3

// StartCluster starts a cluster of n servers that ends with the test, and waits until
// it can create streams. At most one Options may be given; it applies to all servers.
func StartCluster(t testing.TB, n int, o ...Options) *Cluster {
	t.Helper()
	var all Options
	if len(o) > 0 {
		all = o[0]
	}
	var err error
	for range startTries {
		var c *Cluster
		if c, err = startCluster(t, n, all); err == nil {
			return c
		}
	}
	t.Fatalf("natstest: starting a cluster: %v", err)
	return nil
}

func startCluster(t testing.TB, n int, o Options) (*Cluster, error) {
	ports, err := freePorts(n)
	if err != nil {
		return nil, err
	}
	routes := make([]string, n)
	for i, port := range ports {
		routes[i] = fmt.Sprintf("nats://127.0.0.1:%d", port)
	}
	c := &Cluster{t: t}
	for i, port := range ports {
		s, err := start(t, config{
			Name: fmt.Sprintf("n%d", i), Dir: t.TempDir(), Sync: o.Sync, MaxStore: o.MaxStore,
			RoutePort: port, Routes: routes,
		})
		if err == nil {
			c.servers = append(c.servers, s)
			continue
		}
		for _, s := range c.servers {
			s.Kill()
		}
		return nil, err
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := c.Ready(ctx); err != nil {
		return c, err
	}
	return c, c.places(ctx, n)
}

// places waits until a stream with n replicas can be created. The leader responds before
// it knows all servers, and then has "no suitable peers for placement".
func (c *Cluster) places(ctx context.Context, n int) error {
	const probe = "natstest-probe"
	return c.ask(ctx, func(ctx context.Context, js jetstream.JetStream) error {
		_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: probe, Subjects: []string{probe}, Replicas: n, Storage: jetstream.MemoryStorage})
		if err != nil && !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			return err
		}
		return js.DeleteStream(ctx, probe)
	})
}

// freePorts returns ports that were free a moment ago.
func freePorts(n int) (ports []int, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // kept open until all are chosen, so that they differ
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// URLs returns the addresses for clients, separated by commas, as nats.Connect takes
// them.
func (c *Cluster) URLs() string {
	urls := make([]string, len(c.servers))
	for i, s := range c.servers {
		urls[i] = s.URL()
	}
	return strings.Join(urls, ",")
}

// Server returns server i, counted from 0.
func (c *Cluster) Server(i int) *Server { return c.servers[i] }

// Len returns the number of servers, including stopped ones.
func (c *Cluster) Len() int { return len(c.servers) }

// Connect returns a connection to one of the servers, which is closed with the test.
// It moves on to another server if the current one ends or does not respond for a
// second (the default in nats.go is four minutes). Options are added to these.
func (c *Cluster) Connect(options ...nats.Option) *nats.Conn {
	c.t.Helper()
	return connect(c.t, c.URLs(), append([]nats.Option{
		nats.PingInterval(500 * time.Millisecond),
		nats.MaxPingsOutstanding(1),
		nats.Timeout(time.Second),
	}, options...))
}

// Ready waits until the cluster has a leader, which can create streams.
func (c *Cluster) Ready(ctx context.Context) error {
	return c.ask(ctx, func(ctx context.Context, js jetstream.JetStream) error {
		_, err := js.AccountInfo(ctx)
		return err
	})
}

// Leader waits until a stream has a leader, and returns the number of that server. It
// returns -1 if there is no leader before ctx ends.
func (c *Cluster) Leader(ctx context.Context, stream string) int {
	leader := -1
	err := c.ask(ctx, func(ctx context.Context, js jetstream.JetStream) error {
		st, err := js.Stream(ctx, stream)
		if err != nil {
			return err
		}
		cluster := st.CachedInfo().Cluster
		if cluster == nil || cluster.Leader == "" {
			return errors.New("no leader")
		}
		_, err = fmt.Sscanf(cluster.Leader, "n%d", &leader)
		return err
	})
	if err != nil {
		return -1
	}
	return leader
}

// ask repeats a question until it succeeds, or ctx ends.
func (c *Cluster) ask(ctx context.Context, question func(context.Context, jetstream.JetStream) error) error {
	const timeout = time.Second // a paused server does not respond
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := c.askOnce(ctx, timeout, question)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("natstest: %w: %w", ctx.Err(), err)
		case <-tick.C:
		}
	}
}

func (c *Cluster) askOnce(ctx context.Context, timeout time.Duration, question func(context.Context, jetstream.JetStream) error) error {
	nc, err := nats.Connect(c.URLs(), nats.NoReconnect(), nats.Timeout(timeout))
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return question(ctx, js)
}
