// Package engine starts real, disposable engines for tests and measurements.
//
// An engine listens on a free loopback port, keeps its data in its own temporary
// folder, and runs as an unprivileged user if it refuses root. The process that
// started it stops it, by process ID:
//
//	pg, err := engine.Postgres(ctx, engine.PostgresOptions{})
//	if err != nil {
//		return err
//	}
//	defer pg.Stop()
//	pool, err := pgxpool.New(ctx, pg.URL)
//
// A panic runs the deferred Stop; to stop the engine on an interrupt, turn the
// interrupt into the end of a context (signal.NotifyContext). If the program is
// killed, the kernel ends the engine (on Linux) and the next start removes its
// folder.
//
// [Cassandra] and [Nginx] work the same way, and so do the proxies that the gateway
// is compared with: [NginxCache], [Varnish] and [Caddy], whose configurations are
// files in the folder conf. [Command] runs the tools that generate load (ab, wrk,
// hey), those with which tests inspect the program's output (promtool, chromium,
// node), and pgbouncer, which tests start in front of PostgreSQL.
//
// [Redis] and [RedisCluster] can also be made to fail: a [Server] can be killed,
// paused, and restarted, empty, on the same ports. Valkey works the same way with
// another program, if it is available.
//
// # Where the programs come from
//
// Installed programs are found on the search path, in Debian's folders, and among
// those that [Install] fetched before. Starting installs nothing. A missing engine or
// tool is a [*MissingError], which names the Debian package.
//
// As root, Install installs Debian's packages; otherwise it fetches them into a
// cache. PostgreSQL and Cassandra's jars are also on Maven Central. Set WEIR_MAVEN to
// the base URL of a mirror to fetch from there. The digests are in this package, so a
// mirror need not be trusted.
//
// # Tests
//
// `go run ./lab/cmd/with postgres cassandra -- go test ./...` starts the named
// engines, sets WEIR_TEST_<ENGINE> to the address of each, and sets
// WEIR_TEST_ENGINES=required: a test that needs a missing engine then fails instead
// of being skipped.
package engine
