/*
Package weirprom exports metrics of Guards, HTTP handlers and gateways to Prometheus.

	c, err := weirprom.New(weirprom.Options{Guards: []weir.Inspector{prices, users}})
	...
	registry.MustRegister(c)
	http.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))

A [Collector] reads what is there on a scrape, and does nothing in between: a hit
costs what it costs without one. Guards that are made later are added to the
same Collector, see [Collector.AddGuard].

# Metrics

[Metrics] has the names with their types, labels and meanings. All begin with
weir_, times are in seconds and sizes in bytes. Of Guards there are weir_guard_…,
by the label guard, which is Options.Name; of handlers and the routes of a gateway
weir_http_…, by route; of a gateway weir_gateway_…, weir_upstream_…, weir_server_…
and weir_cache_…; of limiters weir_limit_…, by limit, the name of the upstream, or
that in a limiter's own options, or if that is empty the Guard's; of a fleet
weir_fleet_…. A gateway's routes and upstreams are those of the moment: when an
Update takes one away its metrics end, and what an Update makes anew counts from
zero.

Labels are names from the program and its configuration, and constants, so there
are as many series as these allow. A key, or anything else that clients send, is
never among them.

A limiter that several Guards share is reported once, and each part of a limit.All.
A limiter with the name of another, or of an upstream, is reported as GUARD:NAME; a
Route with the name of one of the gateway as handler:NAME. Other limiters are
reported only if they have the Stats method of one in package limit.

# Durations

Histograms are classic ones, with the ends 1, 2.5 and 5 of each power of ten from
100 µs to 100 s. A Guard counts in buckets that end there too, so the counts are
exact. There are no native histograms: their buckets end at powers of two, or
their roots, where those of package inspect do not, and to guess how many of one
are in which of the other would not be exact.
*/
package weirprom
