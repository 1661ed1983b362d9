package cpu

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// tick is the unit of times in /proc: USER_HZ is 100 on every architecture
// that Go runs on.
const tick = time.Second / 100

// A stat has the required fields of a line of /proc/PID/stat.
type stat struct {
	parent int
	used   time.Duration // including children that were waited for
}

// Times returns the CPU time that a process and its descendants have used so far, in
// steps of 10 ms: those alive, and those that have ended and were waited for. A
// process that is reparented to init, because its parent has ended, is no longer a
// descendant. A process that does not exist is an error that matches
// [fs.ErrNotExist].
func Times(pid int) (time.Duration, error) {
	first, err := readStat(pid)
	if err != nil {
		return 0, err
	}
	all, err := stats()
	if err != nil {
		return 0, err
	}
	sum := first.used
	for _, child := range descendants(pid, all) {
		sum += all[child].used
	}
	return sum, nil
}

// Tree returns a process and its living descendants.
func Tree(pid int) ([]int, error) {
	if _, err := readStat(pid); err != nil {
		return nil, err
	}
	all, err := stats()
	if err != nil {
		return nil, err
	}
	return append([]int{pid}, descendants(pid, all)...), nil
}

// descendants returns the descendants of pid in all, without pid itself.
func descendants(pid int, all map[int]stat) []int {
	children := make(map[int][]int)
	for id, s := range all {
		children[s.parent] = append(children[s.parent], id)
	}
	var found []int
	for wait := children[pid]; len(wait) > 0; {
		next := wait[0]
		wait = append(wait[1:], children[next]...)
		found = append(found, next)
	}
	return found
}

// stats reads all processes.
func stats() (map[int]stat, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("cpu: list the processes: %w", err)
	}
	all := make(map[int]stat, len(entries))
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		s, err := readStat(pid)
		switch {
		case errors.Is(err, fs.ErrNotExist): // it has ended
		case err != nil:
			return nil, err
		default:
			all[pid] = s
		}
	}
	return all, nil
}

func readStat(pid int) (stat, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, syscall.ESRCH) { // it has ended between open and read
		err = fs.ErrNotExist
	}
	if err != nil {
		return stat{}, fmt.Errorf("cpu: process %d: %w", pid, err)
	}
	s, err := parseStat(string(text))
	if err != nil {
		return stat{}, fmt.Errorf("cpu: process %d: %w", pid, err)
	}
	return s, nil
}

// parseStat reads a line of /proc/PID/stat, see proc(5). The program's name,
// in parentheses, may itself contain spaces and parentheses.
func parseStat(line string) (stat, error) {
	end := strings.LastIndexByte(line, ')')
	fields := strings.Fields(line[end+1:])
	// The fields after the name begin with the third.
	const parent, utime, cstime = 4 - 3, 14 - 3, 17 - 3
	if end < 0 || len(fields) <= cstime {
		return stat{}, fmt.Errorf("stat is %q, must have 17 fields", line)
	}
	var s stat
	var err error
	if s.parent, err = strconv.Atoi(fields[parent]); err != nil {
		return stat{}, fmt.Errorf("parent in stat: %w", err)
	}
	for _, f := range fields[utime : cstime+1] { // utime, stime, cutime, cstime
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return stat{}, fmt.Errorf("time in stat: %w", err)
		}
		s.used += time.Duration(n) * tick
	}
	return s, nil
}
