package cpu

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Split divides the processors that this process may use: the last half of them,
// rounded down, for a load generator, the rest for everything else. With one
// processor it returns [ErrNotApplied].
func Split() (generator, rest []int, err error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, nil, notApplied("read the processors of this process: %w", err)
	}
	return split(list(&set))
}

func split(cpus []int) (generator, rest []int, err error) {
	if len(cpus) < 2 {
		return nil, nil, notApplied("this process may use only one processor")
	}
	n := len(cpus) - len(cpus)/2
	return cpus[n:], cpus[:n], nil
}

func list(set *unix.CPUSet) []int {
	var cpus []int
	for i := 0; len(cpus) < set.Count(); i++ {
		if set.IsSet(i) {
			cpus = append(cpus, i)
		}
	}
	return cpus
}

// Pin restricts all threads of this process, and the processes that it starts later,
// to those processors.
func Pin(cpus []int) error {
	if len(cpus) == 0 {
		return errors.New("cpu: Pin: cpus is empty, must name a processor")
	}
	var set unix.CPUSet
	for _, c := range cpus {
		set.Set(c)
	}
	// A new thread inherits its processors from its creator, which may not have been
	// moved yet. Once a round finds no new threads, all have been moved.
	moved := make(map[int]bool)
	for more := true; more; {
		more = false
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return notApplied("list the threads of this process: %w", err)
		}
		for _, e := range threads {
			id, err := strconv.Atoi(e.Name())
			if err != nil || moved[id] {
				continue
			}
			moved[id], more = true, true
			if err := unix.SchedSetaffinity(id, &set); err != nil && !errors.Is(err, unix.ESRCH) {
				return notApplied("move to processors %v: %w", cpus, fmt.Errorf("sched_setaffinity: %w", err))
			}
		}
	}
	return nil
}
