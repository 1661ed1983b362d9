package engine

import (
	"cmp"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

const postgresPackage = "postgresql" // Debian's package, which depends on the newest version

// findPostgres returns the folder with PostgreSQL's programs.
func findPostgres() (string, error) {
	dirs := filepath.SplitList(os.Getenv("PATH"))
	dirs = append(dirs, newestFirst("/usr/lib/postgresql")...)
	dirs = append(dirs, filepath.Join(postgresJar.folder(), "bin"))
	for _, dir := range dirs {
		if hasPostgres(dir) {
			return dir, nil
		}
	}
	return "", missing("postgres")
}

// newestFirst returns the bin folders below Debian's base/<major>/bin.
func newestFirst(base string) []string {
	found, _ := filepath.Glob(filepath.Join(base, "*", "bin"))
	major := func(bin string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(bin)))
		return n
	}
	slices.SortFunc(found, func(a, b string) int { return cmp.Compare(major(b), major(a)) })
	return found
}

func hasPostgres(dir string) bool {
	for _, name := range []string{"initdb", "postgres"} {
		if !executable(filepath.Join(dir, name)) {
			return false
		}
	}
	return filepath.IsAbs(dir)
}

// unprivileged returns the user that engines run as: nobody if we are root, otherwise
// nil, which means the current user.
func unprivileged() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("nobody")
	if err != nil {
		return nil, fmt.Errorf("engine: a user for the engines: %w", err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("engine: the user nobody: %w", err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("engine: the user nobody: %w", err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}
