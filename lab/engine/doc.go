// Package engine starts real engines, throw-away, for tests and measurements.
//
// An engine listens on a free loopback port, keeps its data in a temporary
// folder of its own, and runs as an unprivileged user where it refuses root.
// The process that started it stops it, by process ID:
//
//	pg, err := engine.Postgres(ctx, engine.PostgresOptions{})
//	if err != nil {
//		return err
//	}
//	defer pg.Stop()
//	pool, err := pgxpool.New(ctx, pg.URL)
//
// A panic runs the deferred Stop; a program that wants the same on an
// interrupt turns it into the end of a context (signal.NotifyContext). Where
// neither happens, because the program was killed, the kernel ends the engine
// (on Linux) and the next start removes its folder.
//
// [Cassandra] and [Nginx] are had the same way, and the proxies that the gateway
// is compared with: [NginxCache], [Varnish] and [Caddy], whose configurations
// are files in the folder conf. [Command] runs the tools that make load (ab,
// wrk, hey), and those that tests look at the program's work with (promtool,
// chromium, node).
//
// [Redis] and [RedisCluster] are there to fail, too: a [Server] can be killed,
// paused, and started again, empty, on the ports that it had. Valkey is the same
// with another program, where that can be had.
//
// # Where the programs come from
//
// What is installed is taken: the search path, Debian's folders, and what
// [Install] fetched before. Starting installs nothing. A missing engine or
// tool is a [*MissingError], which names the Debian package.
//
// Install takes Debian's packages as root and fetches them into a cache
// otherwise; PostgreSQL and Cassandra's jars are on Maven Central, too. Set
// WEIR_MAVEN to the base address of a mirror of it to fetch from there. The
// digests are in this package, so a mirror need not be trusted.
//
// # Tests
//
// `go run ./lab/cmd/with postgres cassandra -- go test ./...` starts the named
// engines, puts the address of each in WEIR_TEST_<ENGINE>, and sets
// WEIR_TEST_ENGINES=required: a test that needs an engine then fails, instead
// of being skipped, when it is missing.
package engine
