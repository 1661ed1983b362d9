/*
Package weirprom exports metrics of Guards, HTTP handlers, gRPC methods and gateways to
Prometheus.

	c, err := weirprom.New(weirprom.Options{Guards: []weir.Inspector{prices, users}})
	...
	registry.MustRegister(c)
	http.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))

A [Collector] reads its sources on a scrape, and does nothing in between, so it adds no
cost to a hit. Guards that are created later are added to the same Collector, see
[Collector.AddGuard].

# Metrics

[Metrics] returns the names with their types, labels and meanings. All begin with
weir_; times are in seconds and sizes in bytes. Guards have weir_guard_…, by the label
guard, which is Options.Name. Handlers and the routes of a gateway have weir_http_…,
by route. A gateway has weir_gateway_…, weir_upstream_…, weir_server_… and
weir_cache_…. Methods of gRPC have weir_grpc_…, by interceptor, which is the name of the
Server or Client of package weirgrpc, and method. Limiters have weir_limit_…, by limit:
the name of the upstream, or the name in the limiter's own options, or if that is empty
the Guard's or the interceptor's. A fleet has weir_fleet_…. A gateway's routes and upstreams are its current ones: when an Update
removes one, its metrics end, and one that an Update recreates counts from zero.

Label values are constants and names from the program and its configuration, which
bound the number of series. They never contain keys or anything else that clients
send. Package weirgrpc bounds the methods that it counts by name.

A limiter shared by several Guards is reported once, and so is each part of a
limit.All. A limiter with the name of another, or of an upstream, is reported as
GUARD:NAME; a Route with the name of a route of the gateway as handler:NAME. Other
limiters are reported only if they have the Stats method of a limiter in package limit.

# Durations

Histograms are classic ones, with buckets that end at 1, 2.5 and 5 of each power of
ten from 100 µs to 100 s. A Guard counts in buckets that end there too, so the counts
are exact. There are no native histograms: their buckets end at powers of two or roots
of these, unlike those of package inspect, so a conversion would not be exact.
*/
package weirprom
