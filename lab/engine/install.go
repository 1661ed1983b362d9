package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// Installed returns nil if the engine called name is on this machine, and
// otherwise a [*MissingError].
func Installed(name string) error {
	if name != "postgres" {
		return fmt.Errorf("%w: %q", ErrUnknown, name)
	}
	_, err := findPostgres()
	return err
}

// Install makes sure that the engine called name can be started, and writes
// what it does to w. What is there already stays as it is.
//
// As root it takes the Debian package, without the service that the package
// would set up. Otherwise, or where that fails, it fetches the programs once
// into a cache, from Maven Central, checked against a digest: 14 MB to
// download for PostgreSQL, 60 MB on disk.
func Install(ctx context.Context, w io.Writer, name string) error {
	err := Installed(name)
	if err == nil || errors.Is(err, ErrUnknown) {
		return err
	}
	if apt, lookErr := exec.LookPath("apt-get"); lookErr == nil && os.Geteuid() == 0 {
		if err = aptPostgres(ctx, w, apt); err == nil {
			return Installed(name)
		}
		fmt.Fprintf(w, "engine: %v; fetching instead\n", err)
	}
	if fetchErr := postgresJar.fetch(ctx, w); fetchErr != nil {
		return fmt.Errorf("engine: install postgres: %w", errors.Join(err, fetchErr))
	}
	return nil
}

// aptPostgres installs PostgreSQL and nothing that runs:
//
//  1. postgresql-common brings the file that decides about clusters;
//  2. that file says for a while that no cluster is wanted;
//  3. postgresql brings the programs, and would otherwise make a cluster and
//     start it.
func aptPostgres(ctx context.Context, w io.Writer, apt string) (err error) {
	run := func(args ...string) error {
		fmt.Fprintln(w, "engine: apt-get", args)
		cmd := exec.CommandContext(ctx, apt, append([]string{"-qq", "-o", "DPkg::Lock::Timeout=120", "-o", "Dpkg::Options::=--force-unsafe-io"}, args...)...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get %v: %w\n%s", args, err, out)
		}
		return nil
	}
	if err := run("update"); err != nil {
		return err
	}
	if err := run("install", "-y", "--no-install-recommends", "postgresql-common"); err != nil {
		return err
	}
	const conf = "/etc/postgresql-common/createcluster.conf"
	before, err := os.ReadFile(conf)
	if err != nil {
		return fmt.Errorf("keep apt-get from making a cluster: %w", err)
	}
	if err := os.WriteFile(conf, append(before, "\ncreate_main_cluster = false\n"...), 0o644); err != nil {
		return fmt.Errorf("keep apt-get from making a cluster: %w", err)
	}
	defer func() { err = errors.Join(err, os.WriteFile(conf, before, 0o644)) }()
	return run("install", "-y", "--no-install-recommends", postgresPackage)
}
