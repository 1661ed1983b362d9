// Package weirredis is a [fleet.Tier], a [fleet.Meter] and a [fleet.Roster] on Redis
// 7 or newer, or on Valkey: a single server, a Cluster, or a master monitored by
// Sentinels.
//
//	tier, err := weirredis.New(ctx, weirredis.Options{Addresses: []string{"127.0.0.1:6379"}})
//
// Each operation is one script, or one read, in one key's slot, and takes one round trip.
// All times come from the server's clock.
//
// # Pushes
//
// Changes are pushed through client tracking in broadcast mode, on a separate
// connection to each master. A message is the name of a key: a script writes the key and
// deletes it, and the server sends the name to all clients that track its prefix. So a
// push takes one round trip, and clients read nothing in response. The connection
// gets a PING each PingInterval. When it breaks or stays silent, Watchers get Lost,
// and Reset once all connections are back. The same happens after FLUSHALL and CLIENT
// KILL. In a Cluster all masters are tracked, and their list is read each
// PingInterval.
//
// # What is stored
//
// Each key has a hash with its state and one with its entry. The state contains the
// last fence and lives ten minutes longer than the entry, the lease and the cooling.
// A load that ends later than that is rejected, as is one whose state was lost. Names
// may contain any bytes; they are escaped as in URLs, so that redis-cli can show
// them: weir:e:{users/jane%20doe}. The announced instances are in one hash per
// Prefix, weir:i:{|}, which is deleted with the last of them.
//
// A user of the engine needs these rights, with your Prefix instead of weir:
//
//	ACL SETUSER weir on >secret ~weir:* +evalsha +eval +hget +hmget +hset +hdel
//	  +hrandfield +pexpire +pttl +set +del +time +ping +hello +auth
//	  +client|setname +client|tracking +cluster|slots
//
// Tracking is not restricted by key patterns: a user with that right sees the names of all
// pushed keys, of all Prefixes, and with fleet.Config.PushValues also the pushed values.
// That option needs the right +info, too: without it no value is pushed.
//
// # Idempotency-Keys
//
// [Tier.Claims] returns a store of the claims of package once, for several gateways; decision
// 0153 says what it needs of the engine. Its user needs more rights:
//
//	+get +exists +hincrby +hlen +zadd +zrem +zscore +zcard +zrange +zrangebyscore +wait +info
//
// # What the engine must keep
//
// Without claims, the engine may lose everything at any time: leases then coordinate the refill,
// and results of loads that began before are rejected. It may evict single keys under
// memory pressure, with one exception: invalidations by tag have no time to live, so set
// maxmemory-policy to volatile-lru, volatile-lfu or volatile-ttl, not to an allkeys policy.
//
// Replication is asynchronous: a failover may lose the last writes of a master,
// including acknowledged invalidations. The servers of a Cluster, and replicas, must
// have synchronized clocks, because after a failover another clock measures the
// remaining time of a lease. While a slot is moved, operations on several keys fail
// if only some of them have moved.
package weirredis
