package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weir-go/weir/lab/internal/resp"
)

// The defaults of RedisClusterOptions.
const (
	DefaultRedisMasters     = 3
	DefaultRedisNodeTimeout = 2 * time.Second

	redisSlots = 16384
)

// RedisClusterOptions configure a cluster.
type RedisClusterOptions struct {
	RedisOptions

	// Masters is the number of nodes with slots, at least 3, because fewer can never
	// elect a new master; 0 means DefaultRedisMasters.
	Masters int

	// Replicas is the number of replicas of each master.
	Replicas int

	// NodeTimeout is the time after which a silent node counts as failing; 0 means
	// DefaultRedisNodeTimeout.
	NodeTimeout time.Duration
}

func (o RedisClusterOptions) validate() error {
	var errs []error
	if o.Masters != 0 && o.Masters < 3 {
		errs = append(errs, fmt.Errorf("engine: RedisClusterOptions.Masters is %d; want 0 (%d) or at least 3", o.Masters, DefaultRedisMasters))
	}
	if o.Replicas < 0 {
		errs = append(errs, fmt.Errorf("engine: RedisClusterOptions.Replicas is %d; want 0 or more", o.Replicas))
	}
	if o.NodeTimeout != 0 && o.NodeTimeout < time.Millisecond {
		errs = append(errs, fmt.Errorf("engine: RedisClusterOptions.NodeTimeout is %v; want 0 (%v) or at least 1ms", o.NodeTimeout, DefaultRedisNodeTimeout))
	}
	return errors.Join(errs...)
}

// A Cluster is a running Redis Cluster.
type Cluster struct {
	// Nodes are its nodes, the masters first, then a replica of each in turn.
	Nodes []*Server

	masters int
	ids     []string // node ids of Nodes
}

// RedisCluster starts a Redis Cluster on free loopback ports. It returns when all
// nodes report the cluster as complete and replicas are in sync with their masters:
// after some 2 s.
//
// ctx bounds only the start; the cluster runs until Stop. The error is a
// [*MissingError] on a machine without Redis.
func RedisCluster(ctx context.Context, o RedisClusterOptions) (*Cluster, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	if o.Masters == 0 {
		o.Masters = DefaultRedisMasters
	}
	if o.NodeTimeout == 0 {
		o.NodeTimeout = DefaultRedisNodeTimeout
	}
	l, err := o.member(o.NodeTimeout.Milliseconds())
	if err != nil {
		return nil, err
	}
	c := &Cluster{masters: o.Masters}
	c.Nodes, err = startEach(ctx, l, o.Masters*(1+o.Replicas))
	if err == nil {
		err = c.form(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("engine: start a cluster of %s: %w", l.name, err), c.Stop())
	}
	return c, nil
}

// startEach starts n nodes at once, and returns those that started.
func startEach(ctx context.Context, l launch, n int) ([]*Server, error) {
	nodes, errs := make([]*Server, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range nodes {
		wg.Go(func() { nodes[i], errs[i] = l.start(ctx) })
	}
	wg.Wait()
	nodes = slices.DeleteFunc(nodes, func(s *Server) bool { return s == nil })
	return nodes, errors.Join(errs...)
}

// form makes the nodes a cluster:
//
//  1. each gets its own epoch; otherwise masters would conflict over slots;
//  2. each master takes its share of the slots;
//  3. the first gets the addresses of the others, and gossip spreads them;
//  4. once all nodes know each other, replicas get their masters;
//  5. the cluster is complete when each node reports it.
func (c *Cluster) form(ctx context.Context) error {
	for i, n := range c.Nodes {
		id, err := resp.Ask(ctx, n.URL, "CLUSTER", "MYID")
		if err != nil {
			return err
		}
		c.ids = append(c.ids, fmt.Sprint(id))
		if err := ask(ctx, n, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1)); err != nil {
			return err
		}
		if i >= c.masters {
			continue
		}
		first, next := i*redisSlots/c.masters, (i+1)*redisSlots/c.masters
		if err := ask(ctx, n, "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(first), strconv.Itoa(next-1)); err != nil {
			return err
		}
	}
	for _, n := range c.Nodes[1:] {
		host, port, _ := strings.Cut(n.URL, ":")
		if err := ask(ctx, c.Nodes[0], "CLUSTER", "MEET", host, port, strconv.Itoa(n.launch.fixed[1])); err != nil {
			return err
		}
	}
	if err := c.until(ctx, func(n *Server) bool { return c.knowsAll(ctx, n) }); err != nil {
		return err
	}
	for i, n := range c.Nodes[c.masters:] {
		if err := ask(ctx, n, "CLUSTER", "REPLICATE", c.ids[i%c.masters]); err != nil {
			return err
		}
	}
	return c.until(ctx, func(n *Server) bool { return c.whole(ctx, n) })
}

func ask(ctx context.Context, n *Server, args ...string) error {
	if _, err := resp.Ask(ctx, n.URL, args...); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(args, " "), err)
	}
	return nil
}

// until waits until holds is true for each node.
func (c *Cluster) until(ctx context.Context, holds func(*Server) bool) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for _, n := range c.Nodes {
		for !holds(n) {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return fmt.Errorf("the nodes did not form a cluster: %w", context.Cause(ctx))
			}
		}
	}
	return nil
}

// knowsAll reports whether a node has completed the handshake with all nodes.
func (c *Cluster) knowsAll(ctx context.Context, n *Server) bool {
	text := answer(ctx, n, "CLUSTER", "NODES")
	return strings.Count(text, "\n") == len(c.Nodes) && !strings.Contains(text, "handshake")
}

// whole reports whether a node sees a complete cluster with all replicas, and, if it
// is a replica, is in sync with its master.
func (c *Cluster) whole(ctx context.Context, n *Server) bool {
	replication := answer(ctx, n, "INFO", "replication")
	return strings.Contains(answer(ctx, n, "CLUSTER", "INFO"), "cluster_state:ok") &&
		strings.Count(answer(ctx, n, "CLUSTER", "NODES"), "slave") == len(c.Nodes)-c.masters &&
		(strings.Contains(replication, "role:master") || strings.Contains(replication, "master_link_status:up"))
}

// answer returns a node's reply to a command, or "" if there is no reply.
func answer(ctx context.Context, n *Server, args ...string) string {
	v, err := resp.Ask(ctx, n.URL, args...)
	text, _ := v.(string)
	if err != nil {
		return ""
	}
	return text
}

// Addrs returns the addresses of all nodes, host:port.
func (c *Cluster) Addrs() []string {
	var all []string
	for _, n := range c.Nodes {
		all = append(all, n.URL)
	}
	return all
}

// Masters returns the nodes that are masters now, in the order of Nodes. It queries
// each node; a node that does not respond does not count.
func (c *Cluster) Masters(ctx context.Context) []*Server {
	var all []*Server
	for _, n := range c.Nodes {
		if strings.Contains(answer(ctx, n, "INFO", "replication"), "role:master") {
			all = append(all, n)
		}
	}
	return all
}

// Stop stops all nodes, as [Server.Stop] stops one.
func (c *Cluster) Stop() error {
	var errs []error
	for _, n := range c.Nodes {
		errs = append(errs, n.Stop())
	}
	return errors.Join(errs...)
}
