package redistest

import (
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A Cluster has masters that share the slots evenly, and replicas.
type Cluster struct {
	Masters  []*Server
	Replicas []*Server // the i-th replicates Masters[i]

	t testing.TB
}

// clusterTime is how long the nodes may take to agree.
const clusterTime = 30 * time.Second

// StartCluster starts a Cluster, configured by hand. A failover takes about two
// seconds once a master is unreachable for nodeTimeout.
func StartCluster(t testing.TB, path string, masters, replicas int, nodeTimeout time.Duration) *Cluster {
	t.Helper()
	c := &Cluster{t: t}
	for range masters {
		c.Masters = append(c.Masters, c.node(path, nodeTimeout))
	}
	for range replicas {
		c.Replicas = append(c.Replicas, c.node(path, nodeTimeout))
	}
	const slots = 16384
	for i, s := range c.Masters {
		s.Do("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
		s.Do("CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(i*slots/masters), strconv.Itoa((i+1)*slots/masters-1))
	}
	first := c.Masters[0]
	for _, s := range c.All()[1:] {
		c.Meet(first, s)
	}
	c.awaitKnown()
	for i, s := range c.Replicas {
		s.Do("CLUSTER", "REPLICATE", c.Masters[i].Text("CLUSTER", "MYID"))
	}
	c.AwaitOK()
	return c
}

func (c *Cluster) node(path string, nodeTimeout time.Duration) *Server {
	c.t.Helper()
	return Start(c.t, path, "--cluster-enabled", "yes",
		"--cluster-port", strconv.Itoa(freePort(c.t)),
		"--cluster-node-timeout", strconv.FormatInt(nodeTimeout.Milliseconds(), 10),
		"--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0")
}

// Meet introduces b to a.
func (c *Cluster) Meet(a, b *Server) {
	c.t.Helper()
	host, port, _ := net.SplitHostPort(b.Addr)
	bus := ""
	for i, arg := range b.args {
		if arg == "--cluster-port" {
			bus = b.args[i+1]
		}
	}
	a.Do("CLUSTER", "MEET", host, port, bus)
}

// Failover kills all masters, and makes their replicas take over at once, with the
// data that they have. When it returns, the new masters are in Masters, and the old
// ones in Replicas.
func (c *Cluster) Failover() {
	c.t.Helper()
	for i, r := range c.Replicas {
		c.Masters[i].Kill()
		r.Do("CLUSTER", "FAILOVER", "TAKEOVER")
		c.Masters[i], c.Replicas[i] = r, c.Masters[i]
	}
	for _, s := range c.Replicas {
		s.Restart()
	}
	c.AwaitOK()
}

// Add starts one more master, without slots, and waits until all nodes know it.
func (c *Cluster) Add(path string, nodeTimeout time.Duration) *Server {
	c.t.Helper()
	s := c.node(path, nodeTimeout)
	c.Meet(c.Masters[0], s)
	c.Masters = append(c.Masters, s)
	c.awaitKnown()
	c.AwaitOK()
	return s
}

// awaitKnown waits until all nodes know each other.
func (c *Cluster) awaitKnown() {
	c.t.Helper()
	all := c.All()
	c.await("nodes to know each other", func() bool {
		for _, s := range all {
			if !strings.Contains(s.Text("CLUSTER", "INFO"), "cluster_known_nodes:"+strconv.Itoa(len(all))) ||
				strings.Contains(s.Text("CLUSTER", "NODES"), "handshake") {
				return false
			}
		}
		return true
	})
}

// All returns all servers.
func (c *Cluster) All() []*Server { return append(append([]*Server{}, c.Masters...), c.Replicas...) }

// AwaitOK waits until all running nodes report a healthy Cluster, and know the
// replicas, which have caught up.
func (c *Cluster) AwaitOK() {
	c.t.Helper()
	c.await("the Cluster to be healthy", func() bool {
		for _, s := range c.All() {
			s.mu.Lock()
			runs := s.cmd != nil
			s.mu.Unlock()
			if !runs {
				continue
			}
			if !strings.Contains(s.Text("CLUSTER", "INFO"), "cluster_state:ok") ||
				strings.Contains(s.Text("INFO", "replication"), "master_link_status:down") ||
				strings.Count(s.Text("CLUSTER", "NODES"), "slave") != len(c.Replicas) {
				return false
			}
		}
		return true
	})
}

func (c *Cluster) await(what string, ok func() bool) {
	c.t.Helper()
	for end := time.Now().Add(clusterTime); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			c.t.Fatalf("waited %v for %s", clusterTime, what)
		}
	}
}
