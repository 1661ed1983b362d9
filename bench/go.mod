module github.com/weir-go/weir/bench

go 1.26.0

require (
	github.com/Code-Hex/go-generics-cache v1.5.1
	github.com/Yiling-J/theine-go v0.6.3
	github.com/anishathalye/porcupine v1.3.1
	github.com/failsafe-go/failsafe-go v0.9.8
	github.com/maypok86/otter/v2 v2.4.0
	github.com/platinummonkey/go-concurrency-limits v0.8.0
	github.com/prometheus/client_golang v1.25.0
	github.com/viccon/sturdyc v1.1.5
	go.opentelemetry.io/otel/sdk v1.47.0
	go.opentelemetry.io/otel/sdk/metric v1.47.0
	golang.org/x/sync v0.24.0
	resenje.org/singleflight v0.4.3
)

require (
	github.com/bits-and-blooms/bitset v1.24.4 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/influxdata/tdigest v0.0.1 // indirect
	github.com/klauspost/cpuid/v2 v2.0.9 // indirect
	github.com/zeebo/xxh3 v1.0.2 // indirect
	golang.org/x/exp v0.0.0-20220328175248-053ad81199eb // indirect
	golang.org/x/sys v0.24.0 // indirect
)
