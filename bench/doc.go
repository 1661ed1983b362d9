// Package bench measures weir beside the libraries that people wire together
// today, in one run on one machine. A claim of speed in weir's documents is a
// ratio from here.
//
//	make bench                      # or, in this folder:
//	go run ./cmd/weir-bench         # all, interleaved, with a table of ratios
//	go run ./cmd/weir-bench promises # which library keeps which promise
//	go test -bench Hit -benchtime 100ms
//
// # What is compared
//
//   - Hit and HitParallel: a fresh value among 16 Ki keys.
//   - Miss: a key that nobody else asks for; the load returns at once and the
//     value is stored. Flight is the same without the store.
//   - Stampede: 1,000 callers, one missing key, a load of 1 ms. StampedeWarm is
//     the same with goroutines that have been there for a while.
//   - Storm: 1,000 hits on one stale value, whose refresh takes a while.
//   - Memory: bytes an entry beside its key and its value.
//   - Refusal: what it costs to turn a caller away.
//   - Watched and WatchedParallel: what a hit costs more with an Observer,
//     adapter/weirotel and adapter/weirprom than with none.
//   - Gateway: hits over real connections with all of that and hot keys, beside
//     the same gateway without. For a judgement run it longer than the rest:
//     weir-bench -bench 'Gateway|Watched' -rounds 20 -benchtime 5s.
//
// Limiters under overload are compared in virtual time, in package overload.
//
// # Fairness
//
// Every library is called through the same func value, with the same keys, the
// same values and the same load. Keys are strings of 16 bytes, because x/sync
// and sturdyc take nothing else. Values are pointers to records of 64 bytes, so
// that no library pays for copying or boxing them. Caches have room for twice
// what they hold, so nothing is evicted, and everywhere the entry lives one
// hour. Each library has the options its documents advise for speed:
//
//   - otter: ExpiryWriting and RefreshWriting, no statistics.
//   - sturdyc: 64 shards, early refreshes, no eviction job, no metrics.
//   - theine: its loading cache. It has no refresh, so it is not in Storm.
//   - mapcache: x/sync singleflight around go-generics-cache, every call
//     through the group; mapcache-checkfirst looks into the cache first, and
//     takes the group for misses only.
//   - weir: time to live, refresh ahead, both stale windows, hard timeout, and
//     its statistics, which cannot be switched off.
package bench
