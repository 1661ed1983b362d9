package cpu

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// period is the accounting period of a share, as in Docker's --cpus: a process
	// that has used its share is throttled until the next period.
	period = 100 * time.Millisecond
	// leastShare is the kernel's minimum: a quota of 1 ms.
	leastShare = 0.01
	mostShare  = 1024
	// groupPrefix begins the names of our groups; the id of the program that
	// made the group follows.
	groupPrefix = "weir-lab-"
	// removeWait is how long the kernel may take to release a group.
	removeWait = time.Second
)

// A Share is a share of a processor for a group of processes. Its methods may be
// called from any goroutine.
type Share struct {
	dir  string
	home string // this program's own group: Remove moves remaining processes there
}

// NewShare creates a control group, of version 1 or 2, for processes that together
// get cpus of the machine's processors: 0.2 is a fifth of one. The name, of a to z, 0
// to 9 and hyphens, is for people who inspect the groups. NewShare removes groups
// left by killed programs. On a machine that does not allow groups it returns
// [ErrNotApplied].
func NewShare(name string, cpus float64) (*Share, error) {
	if name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return nil, fmt.Errorf("cpu: the share's name is %q, must be of a-z, 0-9 and -", name)
	}
	if !(cpus >= leastShare && cpus <= mostShare) {
		return nil, fmt.Errorf("cpu: share %s is %v, must be from %v to %d", name, cpus, leastShare, mostShare)
	}
	parents, err := controllers()
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, c := range parents {
		dir, err := c.group(name, cpus)
		if err == nil {
			return &Share{dir: dir, home: parents[0].dir}, nil
		}
		errs = append(errs, err)
	}
	return nil, notApplied("create a control group: %w", errors.Join(errs...))
}

// group creates a group below c.
func (c controller) group(name string, cpus float64) (dir string, err error) {
	if err := c.enable(); err != nil {
		return "", err
	}
	sweep(c.dir)
	dir, err = os.MkdirTemp(c.dir, fmt.Sprintf("%s%d-%s-", groupPrefix, os.Getpid(), name))
	if err != nil {
		return "", err
	}
	quota := strconv.FormatInt(int64(math.Round(cpus*float64(period.Microseconds()))), 10)
	every := strconv.FormatInt(period.Microseconds(), 10)
	if c.v2 {
		err = write(dir, "cpu.max", quota+" "+every)
	} else {
		err = errors.Join(write(dir, "cpu.cfs_period_us", every), write(dir, "cpu.cfs_quota_us", quota))
	}
	if err != nil {
		return "", errors.Join(err, os.Remove(dir))
	}
	return dir, nil
}

// Add limits a process and its descendants, including those it starts later, to the
// share.
func (s *Share) Add(pid int) error {
	added := make(map[int]bool)
	// Processes started while their parent is moved may be left outside, so repeat
	// until there are no new ones.
	for more := true; more; {
		more = false
		pids, err := Tree(pid)
		if err != nil {
			return err
		}
		for _, p := range pids {
			if added[p] {
				continue
			}
			added[p], more = true, true
			err := write(s.dir, "cgroup.procs", strconv.Itoa(p))
			if err != nil && (p == pid || !errors.Is(err, syscall.ESRCH)) {
				return fmt.Errorf("cpu: hold process %d to a share: %w", p, err)
			}
		}
	}
	return nil
}

// Remove releases the remaining processes and removes the group. A second Remove does
// nothing.
func (s *Share) Remove() error {
	deadline := time.Now().Add(removeWait)
	for {
		text, err := os.ReadFile(filepath.Join(s.dir, "cgroup.procs"))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
			return nil
		}
		for _, pid := range strings.Fields(string(text)) {
			err = errors.Join(err, write(s.home, "cgroup.procs", pid))
		}
		gone := os.Remove(s.dir)
		if gone == nil {
			return nil
		}
		// A process that has ended stays in its group briefly.
		if time.Now().After(deadline) {
			return fmt.Errorf("cpu: remove a share: %w", errors.Join(gone, err))
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// sweep removes the groups of programs that have ended. A group with processes stays:
// the kernel removes only empty groups.
func sweep(parent string) {
	entries, _ := os.ReadDir(parent) // an unreadable folder cannot be swept
	for _, e := range entries {
		rest, ours := strings.CutPrefix(e.Name(), groupPrefix)
		id, _, _ := strings.Cut(rest, "-")
		pid, err := strconv.Atoi(id)
		if ours && err == nil && pid > 0 && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			syscall.Rmdir(filepath.Join(parent, e.Name())) //nolint:errcheck // another program was faster, or it is in use
		}
	}
}

func write(dir, file, text string) error {
	return os.WriteFile(filepath.Join(dir, file), []byte(text), 0)
}
