package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Install makes sure that the engine or tool called name can be run, and
// writes what it does to w. What is there already stays as it is.
//
// As root it takes the Debian packages, and starts no service of theirs, now
// or at the next boot. Otherwise, or where that fails, it fetches the programs
// once into a cache: PostgreSQL from Maven Central, checked against a digest
// (14 MB to download, 60 MB on disk); the rest from Debian by apt-get, which
// checks them, without installing them. Cassandra's jars (66 MB) come from
// Maven Central in any case, each checked against a digest.
func Install(ctx context.Context, w io.Writer, name string) error {
	err := Installed(name)
	if !errors.Is(err, ErrMissing) {
		return err
	}
	unlock, err := lockCache(ctx)
	if err != nil {
		return fmt.Errorf("engine: install %s: %w", name, err)
	}
	defer unlock()
	if name == "cassandra" {
		err = installCassandra(ctx, w)
	} else {
		err = installPackages(ctx, w, name, func() error { return Installed(name) })
	}
	if err != nil {
		return fmt.Errorf("engine: install %s: %w", name, err)
	}
	return Installed(name)
}

// Listed reports whether the package lists of this machine, as they are, have the
// Debian packages of the engine or tool called name.
func Listed(ctx context.Context, name string) bool {
	packages := strings.Fields(known[name].packages)
	out, err := exec.CommandContext(ctx, "apt-cache", append([]string{"policy"}, packages...)...).Output()
	return err == nil && len(packages) > 0 &&
		strings.Count(string(out), "Candidate: ")-strings.Count(string(out), "Candidate: (none)") == len(packages)
}

// installPackages gets the Debian packages of name, or what stands for them,
// until here says that they are there.
func installPackages(ctx context.Context, w io.Writer, name string, here func() error) error {
	if here() == nil { // another program was faster to get the lock
		return nil
	}
	apt, err := exec.LookPath("apt-get")
	if err == nil && os.Geteuid() == 0 {
		if err = aptInstall(ctx, w, apt, name); err == nil {
			err = here()
		}
		if err == nil {
			return nil
		}
		fmt.Fprintf(w, "engine: %v; fetching instead\n", err)
	}
	var fetchErr error
	switch {
	case name == "postgres":
		fetchErr = postgresJar.fetch(ctx, w)
	case known[name].fixed:
		fetchErr = fmt.Errorf("%s works only from where its package is installed, which takes root", name)
	case apt != "":
		fetchErr = unpackDebian(ctx, w, apt, name)
	default:
		return errors.Join(missing(name), err)
	}
	if fetchErr != nil {
		return errors.Join(missing(name), err, fetchErr)
	}
	return here()
}

// lockCache waits until no other program installs.
func lockCache(ctx context.Context) (unlock func(), err error) {
	if err := os.MkdirAll(cacheFolder(), 0o755); err != nil {
		return nil, err
	}
	f, err := os.Create(filepath.Join(cacheFolder(), "lock"))
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(err, f.Close())
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), f.Close())
		}
	}
}

// aptInstall installs the packages of name as root, and nothing that runs.
func aptInstall(ctx context.Context, w io.Writer, apt, name string) (err error) {
	run := func(args ...string) error { return runApt(ctx, w, apt, nil, args...) }
	if err := run("update"); err != nil {
		return err
	}
	allow, err := denyServices(policyFile)
	if err != nil {
		return fmt.Errorf("keep apt-get from starting services: %w", err)
	}
	defer func() { err = errors.Join(err, allow()) }()
	if name == "postgres" {
		return aptPostgres(run)
	}
	d := known[name]
	args := append([]string{"install", "-y", "--no-install-recommends"}, strings.Fields(d.packages)...)
	if err := run(args...); err != nil {
		return err
	}
	for service := range strings.FieldsSeq(d.service) {
		if err := keepFromBoot(ctx, w, service); err != nil {
			return err
		}
	}
	return nil
}

// keepFromBoot has a service not start with the machine: by update-rc.d, which
// tells systemd too, or by systemd alone where the service is only its.
func keepFromBoot(ctx context.Context, w io.Writer, service string) error {
	command := []string{"update-rc.d", service, "disable"}
	if _, err := os.Stat(filepath.Join("/etc/init.d", service)); errors.Is(err, os.ErrNotExist) {
		if _, err := exec.LookPath("systemctl"); err != nil {
			return nil // nobody would start it
		}
		command = []string{"systemctl", "disable", service + ".service"}
	}
	fmt.Fprintln(w, "engine:", strings.Join(command, " "))
	if out, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("keep %s from starting at boot: %w\n%s", service, err, out)
	}
	return nil
}

// policyFile is the program that Debian's packages ask before they start a
// service; policyText is one that says no.
const (
	policyFile = "/usr/sbin/policy-rc.d"
	policyText = "#!/bin/sh\n# Here while weir's lab installs packages.\nexit 101\n"
)

// denyServices puts policyText in place for a while. One that somebody else
// has put there decides instead, and stays.
func denyServices(file string) (allow func() error, err error) {
	have, err := os.ReadFile(file)
	if err == nil && string(have) != policyText { // ours is what a killed program left
		return func() error { return nil }, nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if err := os.WriteFile(file, []byte(policyText), 0o755); err != nil {
		return nil, err
	}
	return func() error { return os.Remove(file) }, nil
}

// runApt runs apt-get to its end. When ctx ends it asks apt-get to stop, and
// does not kill it: a package half unpacked is somebody's work to repair.
func runApt(ctx context.Context, w io.Writer, apt string, options []string, args ...string) error {
	fmt.Fprintln(w, "engine: apt-get", strings.Join(args, " "))
	all := []string{"-qq"}
	for _, o := range append([]string{"DPkg::Lock::Timeout=120", "Dpkg::Options::=--force-unsafe-io"}, options...) {
		all = append(all, "-o", o)
	}
	cmd := exec.CommandContext(ctx, apt, append(all, args...)...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("apt-get %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// aptPostgres installs PostgreSQL and nothing that runs:
//
//  1. postgresql-common brings the file that decides about clusters;
//  2. that file says for a while that no cluster is wanted;
//  3. postgresql brings the programs, and would otherwise make a cluster.
func aptPostgres(run func(args ...string) error) (err error) {
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
