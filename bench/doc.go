// Package bench compares weir with the libraries that people combine today, in one
// run on one machine. Every claim of speed in weir's documents is a ratio from here.
//
//	make bench                      # or, in this folder:
//	go run ./cmd/weir-bench         # all, interleaved, with a table of ratios
//	go run ./cmd/weir-bench promises # which library keeps which promise
//	go test -bench Hit -benchtime 100ms
//
// # What is compared
//
//   - Hit and HitParallel: a fresh value among 16 Ki keys.
//   - Miss: a key that no other caller requests; the load returns immediately, and the
//     value is stored. Flight is the same without the store.
//   - Stampede: 1,000 callers, one missing key, a load of 1 ms. StampedeWarm is the
//     same with long-lived goroutines.
//   - Storm: 1,000 hits on one stale value, whose refresh takes a while.
//   - Memory: bytes per entry in addition to its key and value.
//   - Refusal: the cost of rejecting a caller.
//   - Watched and WatchedParallel: the additional cost of a hit with an Observer,
//     adapter/weirotel and adapter/weirprom.
//   - Gateway: hits over real connections with all of these and hot keys, compared
//     with the same gateway without them. To judge it, run it longer than the rest:
//     weir-bench -bench 'Gateway|Watched' -rounds 20 -benchtime 5s.
//
// Package overload compares limiters under overload in virtual time.
//
// # Fairness
//
// Every library is called through the same func value, with the same keys, values and
// load. Keys are strings of 16 bytes, because x/sync and sturdyc accept nothing else.
// Values are pointers to records of 64 bytes, so that no library pays for copying or
// boxing them. Caches have room for twice the number of entries, so nothing is
// evicted, and every entry lives for one hour. Each library has the options that its
// documentation recommends for speed:
//
//   - otter: ExpiryWriting and RefreshWriting, no statistics.
//   - sturdyc: 64 shards, early refreshes, no eviction job, no metrics.
//   - theine: its loading cache. It has no refresh, so it is not in Storm.
//   - mapcache: x/sync singleflight around go-generics-cache, with every call through
//     the group; mapcache-checkfirst checks the cache first, and uses the group for
//     misses only.
//   - weir: time to live, refresh ahead, both stale windows, hard timeout, and its
//     statistics, which cannot be disabled.
package bench
