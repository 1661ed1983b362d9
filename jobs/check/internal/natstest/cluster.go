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

// A Cluster is servers that keep streams together, each in a process of its own.
type Cluster struct {
	t       testing.TB
	servers []*Server
}

// startTries is how often a cluster is started: the ports of its routes must be
// known before they are taken, so that another program can be faster.
const startTries = 3

// StartCluster starts a cluster of n servers that ends with the test, and waits
// until it can make streams. There may be one Options, for all of them.
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
	return c, c.Ready(ctx)
}

// freePorts returns ports that nobody listened on a moment ago.
func freePorts(n int) (ports []int, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // all of them are open at once, so that they differ
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// URLs are where clients connect, with commas between, as nats.Connect takes
// them.
func (c *Cluster) URLs() string {
	urls := make([]string, len(c.servers))
	for i, s := range c.servers {
		urls[i] = s.URL()
	}
	return strings.Join(urls, ",")
}

// Server returns the server i, from 0.
func (c *Cluster) Server(i int) *Server { return c.servers[i] }

// Len is how many servers there are, those that do not run included.
func (c *Cluster) Len() int { return len(c.servers) }

// Connect returns a connection to one of the servers, which moves on to another
// where that one ends, or does not answer for a second (nats.go's default is
// four minutes), and is closed with the test. Options add to that.
func (c *Cluster) Connect(options ...nats.Option) *nats.Conn {
	c.t.Helper()
	return connect(c.t, c.URLs(), append([]nats.Option{
		nats.PingInterval(500 * time.Millisecond),
		nats.MaxPingsOutstanding(1),
		nats.Timeout(time.Second),
	}, options...))
}

// Ready waits until the cluster has a leader, which makes streams.
func (c *Cluster) Ready(ctx context.Context) error {
	return c.ask(ctx, func(ctx context.Context, js jetstream.JetStream) error {
		_, err := js.AccountInfo(ctx)
		return err
	})
}

// Leader returns which server leads a stream, once one does: -1 if none has
// until ctx ends.
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

// ask asks until there is an answer, or ctx ends.
func (c *Cluster) ask(ctx context.Context, question func(context.Context, jetstream.JetStream) error) error {
	const timeout = time.Second // a server that is paused does not answer
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
