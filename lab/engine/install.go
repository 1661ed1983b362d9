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

// Install makes sure that the engine or tool called name can be run, and logs its
// steps to w. It does not change installed programs.
//
// As root it installs the Debian packages, and keeps their services from starting,
// now and at the next boot. Otherwise, or if that fails, it fetches the programs once
// into a cache. PostgreSQL comes from Maven Central and is checked against a digest
// (14 MB to download, 60 MB on disk). The other programs come from Debian through
// apt-get, which verifies the packages; they are unpacked, not installed. Cassandra's
// jars (66 MB) always come from Maven Central, each checked against a digest.
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

// Listed reports whether the current package lists of this machine have the Debian
// packages of the engine or tool called name.
func Listed(ctx context.Context, name string) bool {
	packages := strings.Fields(known[name].packages)
	out, err := exec.CommandContext(ctx, "apt-cache", append([]string{"policy"}, packages...)...).Output()
	return err == nil && len(packages) > 0 &&
		strings.Count(string(out), "Candidate: ")-strings.Count(string(out), "Candidate: (none)") == len(packages)
}

// installPackages installs the Debian packages of name, or a substitute, unless here
// returns nil.
func installPackages(ctx context.Context, w io.Writer, name string, here func() error) error {
	if here() == nil { // another program got the lock first and installed it
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
		fetchErr = fmt.Errorf("%s works only if its package is installed, which requires root", name)
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

// lockCache waits until no other program is installing.
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

// listsFetched reports whether this process has fetched apt-get's package lists as root.
var listsFetched bool // guarded by the lock of the cache

// aptInstall installs the packages of name as root, without starting services.
func aptInstall(ctx context.Context, w io.Writer, apt, name string) (err error) {
	run := func(args ...string) error { return runApt(ctx, w, apt, nil, args...) }
	if !listsFetched { // once a process: each fetch takes seconds
		if err := run("update"); err != nil {
			return err
		}
		listsFetched = true
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

// keepFromBoot keeps a service from starting at boot: with update-rc.d, which also
// informs systemd, or only with systemd if the service is known only there.
func keepFromBoot(ctx context.Context, w io.Writer, service string) error {
	command := []string{"update-rc.d", service, "disable"}
	if _, err := os.Stat(filepath.Join("/etc/init.d", service)); errors.Is(err, os.ErrNotExist) {
		if _, err := exec.LookPath("systemctl"); err != nil {
			return nil // nothing would start it
		}
		command = []string{"systemctl", "disable", service + ".service"}
	}
	fmt.Fprintln(w, "engine:", strings.Join(command, " "))
	if out, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("keep %s from starting at boot: %w\n%s", service, err, out)
	}
	return nil
}

// policyFile is the program that Debian's packages call before they start a service;
// policyText is a policy that denies the start.
const (
	policyFile = "/usr/sbin/policy-rc.d"
	policyText = "#!/bin/sh\n# Here while weir's lab installs packages.\nexit 101\n"
)

// denyServices installs policyText until allow is called. A policy of another program
// stays in force instead.
func denyServices(file string) (allow func() error, err error) {
	have, err := os.ReadFile(file)
	if err == nil && string(have) != policyText { // our text was left by a killed program
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

// runApt runs apt-get to its end. When ctx ends it interrupts apt-get rather than
// killing it: a half-unpacked package would need manual repair.
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

// aptPostgres installs PostgreSQL without starting it:
//
//  1. postgresql-common installs the file that controls the creation of clusters;
//  2. that file temporarily disables it;
//  3. postgresql installs the programs, and would otherwise create a cluster.
func aptPostgres(run func(args ...string) error) (err error) {
	if err := run("install", "-y", "--no-install-recommends", "postgresql-common"); err != nil {
		return err
	}
	const conf = "/etc/postgresql-common/createcluster.conf"
	before, err := os.ReadFile(conf)
	if err != nil {
		return fmt.Errorf("keep apt-get from creating a cluster: %w", err)
	}
	if err := os.WriteFile(conf, append(before, "\ncreate_main_cluster = false\n"...), 0o644); err != nil {
		return fmt.Errorf("keep apt-get from creating a cluster: %w", err)
	}
	defer func() { err = errors.Join(err, os.WriteFile(conf, before, 0o644)) }()
	return run("install", "-y", "--no-install-recommends", postgresPackage)
}
