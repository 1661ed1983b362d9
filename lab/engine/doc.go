// Package engine starts real engines, throw-away, for tests and measurements.
//
// An engine listens on a free loopback port, keeps its data in a temporary
// folder of its own, and runs as an unprivileged user where it refuses root.
// Whoever started it stops it, by process id:
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
// # Where the programs come from
//
// Postgres takes what is installed: the search path, Debian's
// /usr/lib/postgresql, and what [Install] fetched before. It installs nothing
// itself. A missing engine is a [*MissingError], which names the Debian
// package.
//
// # Tests
//
// `go run ./lab/cmd/with postgres -- go test ./...` starts the engines it is
// told, puts the address of each in WEIR_TEST_<ENGINE>, and sets
// WEIR_TEST_ENGINES=required: a test that needs an engine then fails, instead
// of being skipped, when it is missing.
package engine
