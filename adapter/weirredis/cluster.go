package weirredis

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

// follow keeps one feed for each of the Cluster's masters, until ctx ends.
func (h *hub) follow(ctx context.Context, client rueidis.Client) {
	for {
		masters, err := h.masters(ctx, client)
		wait := h.o.PingInterval
		if err == nil {
			h.want(ctx, masters)
		} else {
			wait = min(wait, 100*time.Millisecond)
		}
		if !sleep(ctx, wait) {
			return
		}
	}
}

var errNoNode = errors.New("no node of the Cluster responds")

// masters queries the nodes, one after another, for the nodes that have slots, until
// one responds.
func (h *hub) masters(ctx context.Context, client rueidis.Client) ([]string, error) {
	for address, node := range client.Nodes() { // in any order
		ctx, cancel := context.WithTimeout(ctx, h.o.PingInterval)
		m, err := node.Do(ctx, node.B().ClusterSlots().Build()).ToMessage()
		cancel()
		if err != nil {
			continue
		}
		if masters := parseSlots(m, address); len(masters) > 0 {
			return masters, nil
		}
	}
	return nil, errNoNode
}

// parseSlots returns the masters that CLUSTER SLOTS names, sorted. A node listed
// without an address is the node that responded.
func parseSlots(m rueidis.RedisMessage, asked string) (masters []string) {
	slots, err := m.ToArray()
	if err != nil {
		return nil
	}
	for _, slot := range slots {
		parts, err := slot.ToArray()
		if err != nil || len(parts) < 3 {
			continue
		}
		node, err := parts[2].ToArray() // the master; its replicas follow
		if err != nil || len(node) < 2 {
			continue
		}
		host, _ := node[0].ToString() // nil: the host of asked
		port, err := node[1].AsInt64()
		if err != nil || host == "?" {
			continue
		}
		if host == "" {
			host, _, _ = net.SplitHostPort(asked)
		}
		masters = append(masters, net.JoinHostPort(host, strconv.FormatInt(port, 10)))
	}
	slices.Sort(masters)
	return slices.Compact(masters)
}
