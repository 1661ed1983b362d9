// Package weirredis is a [fleet.Tier], a [fleet.Meter] and a [fleet.Roster] on
// Redis 7 or newer, or Valkey: one server, a Cluster, or a master that Sentinels watch.
//
//	tier, err := weirredis.New(ctx, weirredis.Options{Addresses: []string{"127.0.0.1:6379"}})
//
// Each operation is one script, or one read, on one key's slot, which takes one
// round trip. All times are the server's own clock.
//
// # Pushes
//
// What changes is pushed by client tracking in its broadcast mode, on a
// connection of its own to each master: a script that has something to tell
// writes and deletes a key whose name is the message, and the server tells the
// name to all that track the prefix. So a push is as late as a round trip, and
// nothing has to be read for it. That connection gets a PING each PingInterval.
// When it breaks or is silent Watchers get Lost, and Reset when it is back
// everywhere; the same after FLUSHALL and CLIENT KILL. In a Cluster all masters
// are tracked, and the list of them is read each PingInterval.
//
// # What is kept
//
// Of each key there is a hash with its state, and one with its entry. The state
// has the last fence, and lives ten minutes longer than the entry, the lease and
// the cooling. A load that ends later than that is refused, as is one whose
// state was lost. Names may be any bytes; to see them in redis-cli, they are
// escaped as in URLs: weir:e:{users/jane%20doe}. Instances that have announced
// themselves are one hash for a Prefix, weir:i:{|}, which goes with the last of
// them.
//
// A user of the engine needs these rights, with the Prefix in place of weir:
//
//	ACL SETUSER weir on >secret ~weir:* +evalsha +eval +hget +hmget +hset +hdel
//	  +hrandfield +pexpire +pttl +set +del +time +ping +hello +auth
//	  +client|setname +client|tracking +cluster|slots
//
// Tracking is not bound to keys: a user with that right learns all names of keys
// that are pushed, of all Prefixes.
//
// # What the engine must keep
//
// The engine may lose everything at any time: leases then coordinate the refill,
// and results of loads that began before are refused. To evict single keys under
// memory pressure is fine, with one exception: the notes of invalidations by tag
// have no time to live, so set maxmemory-policy to volatile-lru, volatile-lfu or
// volatile-ttl, not to one of the allkeys policies.
//
// Replication is asynchronous: a failover may lose the last writes of a master,
// among them invalidations that were acknowledged. The servers of a Cluster, and
// replicas, must have their clocks set alike: another one's clock measures
// what is left of a lease after a failover. While a slot is moved, operations on keys of
// which a half has moved fail.
package weirredis
