package cpu_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weir-go/weir/lab/internal/cpu"
	"github.com/weir-go/weir/lab/internal/proc"
)

// asked is the environment variable that makes this binary a child of a test.
const asked = "WEIR_TEST_CPU"

// burnt is the CPU time that a child uses, however long it takes.
const burnt = 100 * time.Millisecond

// TestMain makes this binary a process that uses CPU time, or starts another one that
// does, once its input ends.
func TestMain(m *testing.M) {
	switch os.Getenv(asked) {
	case "":
		os.Exit(m.Run())
	case "parent":
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), asked+"=burn")
		c.Stdin, c.Stdout = os.Stdin, os.Stdout
		fmt.Println("waited for:", c.Run())
	case "burn":
		var one [1]byte
		os.Stdin.Read(one[:]) //nolint:errcheck // the end of the input starts it
		for used, err := cpu.Own(); used < burnt && err == nil; used, err = cpu.Own() {
		}
		fmt.Println(os.Getpid())
	case "pin":
		pin()
	}
	time.Sleep(time.Hour) // until the test ends us
}

// pin pins itself and prints where its threads and its child may run.
func pin() {
	for range 4 { // existing threads
		go func() {
			time.Sleep(time.Millisecond)
			syscall.Nanosleep(&syscall.Timespec{Sec: 3600}, nil) //nolint:errcheck // it holds its thread
		}()
	}
	time.Sleep(50 * time.Millisecond)
	generator, rest, err := cpu.Split()
	if err == nil {
		err = cpu.Pin(rest)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	tasks, _ := filepath.Glob("/proc/self/task/*/status")
	allowed := make(map[string]bool)
	for _, task := range append(tasks, "child") {
		text, err := os.ReadFile(task)
		if task == "child" {
			text, err = exec.Command("cat", "/proc/self/status").Output()
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		allowed[allowedList(string(text))] = true
	}
	fmt.Println(len(tasks) > 4, allowed, rest, generator)
}

// allowedList returns the processors from a status file.
func allowedList(status string) string {
	_, after, _ := strings.Cut(status, "Cpus_allowed_list:")
	line, _, _ := strings.Cut(after, "\n")
	return strings.TrimSpace(line)
}

// A child is a process started by a test: tell ends its input, told waits for a line
// of its output.
type child struct {
	*proc.Process
	tell func()
	told func() string
}

func start(t *testing.T, what string, cpus ...int) child {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asked+"="+what)
	in, tell, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, write, os.Stderr
	p, err := proc.StartOn(cmd, syscall.SIGKILL, cpus)
	if err != nil {
		t.Fatal(err)
	}
	in.Close()
	write.Close()
	t.Cleanup(func() {
		p.SignalGroup(syscall.SIGKILL)
		p.Wait()
		tell.Close()
		out.Close()
	})
	return child{p, func() { tell.Close() }, func() string {
		t.Helper()
		var line [1024]byte
		n, err := out.Read(line[:])
		if err != nil {
			t.Fatalf("the child prints nothing: %v", err)
		}
		return strings.TrimSpace(string(line[:n]))
	}}
}

func times(t *testing.T, pid int) time.Duration {
	t.Helper()
	used, err := cpu.Times(pid)
	if err != nil {
		t.Fatal(err)
	}
	return used
}

func TestTimesCountsAChildAliveAndWaitedFor(t *testing.T) {
	c := start(t, "parent")
	c.tell()
	grandchild, err := strconv.Atoi(c.told()) // it has used its CPU time, and is alive
	if err != nil {
		t.Fatal(err)
	}
	alive := times(t, c.Pid())
	if alive < burnt/2 || alive > 10*burnt { // for two processes, in kernel ticks
		t.Errorf("Times = %v while the grandchild is alive; want the %v that it used, or slightly more", alive, burnt)
	}

	if err := syscall.Kill(grandchild, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	c.told()
	if waited := times(t, c.Pid()); waited < alive {
		t.Errorf("Times = %v once the grandchild was waited for; want no less than the %v before", waited, alive)
	}
	c.SignalGroup(syscall.SIGKILL)
	c.Wait()
	if _, err := cpu.Times(c.Pid()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Times of a process that has ended = %v; want fs.ErrNotExist", err)
	}
}

func TestOwnGoesUp(t *testing.T) {
	before, err := cpu.Own()
	if err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(50 * time.Millisecond); time.Now().Before(until); {
	}
	if after, err := cpu.Own(); err != nil || after <= before {
		t.Errorf("Own = %v, %v after some work; want more than %v", after, err, before)
	}
}

func TestPinMovesEveryThreadAndWhatIsStartedLater(t *testing.T) {
	generator, rest, err := cpu.Split()
	if errors.Is(err, cpu.ErrNotApplied) {
		t.Skip(err) // one processor: there is nothing to tell apart
	}
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprint(true, map[string]bool{ranges(rest): true}, rest, generator); start(t, "pin").told() != want {
		t.Errorf("the child's processors differ from %s", want)
	}
}

func TestStartOnPinsTheChildAlone(t *testing.T) {
	generator, _, err := cpu.Split()
	if errors.Is(err, cpu.ErrNotApplied) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	c := start(t, "burn", generator...)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	if got := allowedList(string(status)); got != ranges(generator) {
		t.Errorf("the child may run on %s; want %s", got, ranges(generator))
	}
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatal(err)
	}
	tasks, _ := filepath.Glob("/proc/self/task/*/status")
	for _, task := range tasks {
		own, err := os.ReadFile(task)
		if err == nil && allowedList(string(own)) == ranges(generator) {
			t.Errorf("%s of this program may run on %s only; want it as before", task, ranges(generator))
		}
	}
	if _, err := proc.StartOn(exec.Command("true"), syscall.SIGKILL, []int{1000}); err == nil {
		t.Error("StartOn a nonexistent processor = nil; want an error")
	}
}

// ranges formats ascending processors like the kernel: 0-2,5.
func ranges(cpus []int) string {
	var parts []string
	for i := 0; i < len(cpus); {
		j := i
		for j+1 < len(cpus) && cpus[j+1] == cpus[j]+1 {
			j++
		}
		part := strconv.Itoa(cpus[i])
		if j > i {
			part += "-" + strconv.Itoa(cpus[j])
		}
		parts, i = append(parts, part), j+1
	}
	return strings.Join(parts, ",")
}

// share creates a share, or skips the test if the machine does not allow one.
func share(t *testing.T, cpus float64) *cpu.Share {
	t.Helper()
	s, err := cpu.NewShare("test", cpus)
	if errors.Is(err, cpu.ErrNotApplied) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Remove(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestShareLimitsAProcessAndItsChildren(t *testing.T) {
	const limit = 0.05 // less than the share of one process on a busy machine
	s := share(t, limit)
	c := start(t, "parent")
	if err := s.Add(c.Pid()); err != nil {
		t.Fatal(err)
	}
	began, before := time.Now(), times(t, c.Pid())
	c.tell()
	c.told()
	// The group uses its share of the CPU time, plus up to two periods; on a busy
	// machine it may use less.
	used, took := times(t, c.Pid())-before, time.Since(began)
	if most := time.Duration(limit*float64(took+200*time.Millisecond)) + 20*time.Millisecond; used > most {
		t.Errorf("a process and its child used %v in %v; want at most %v", used, took, most)
	}
	// The proof on any machine is that the kernel has throttled it.
	stat, err := os.ReadFile(filepath.Join(s.Dir(), "cpu.stat"))
	if _, after, _ := strings.Cut(string(stat), "nr_throttled "); err != nil || after == "" || strings.HasPrefix(after, "0\n") {
		t.Errorf("the group's cpu.stat is %q, %v; want nr_throttled above 0", stat, err)
	}
	if err := s.Remove(); err != nil { // with processes still in it
		t.Error(err)
	}
	if err := s.Remove(); err != nil {
		t.Errorf("another Remove = %v; want nil", err)
	}
	if err := s.Add(c.Pid()); err == nil {
		t.Error("Add after Remove = nil; want an error")
	}
}

func TestNewShareSweepsWhatAKilledProgramLeft(t *testing.T) {
	s := share(t, 0.5)
	dir := filepath.Dir(s.Dir())
	dead := exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(dir, fmt.Sprintf("weir-lab-%d-test-1", dead.Process.Pid))
	living := filepath.Join(dir, fmt.Sprintf("weir-lab-%d-test-2", os.Getppid()))
	for _, d := range []string{left, living} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
		defer os.Remove(d)
	}
	share(t, 0.5)
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the group of a dead program: %v; want it gone", err)
	}
	for _, d := range []string{living, s.Dir()} {
		if _, err := os.Stat(d); err != nil {
			t.Errorf("the group of a living program: %v; want it left alone", err)
		}
	}
}

func TestNewShareRefusesNonsense(t *testing.T) {
	for _, tt := range []struct {
		name string
		cpus float64
	}{{"", 1}, {"a/b", 1}, {"..", 1}, {"a", 0}, {"a", -1}, {"a", 0.001}, {"a", 1e6}} {
		if _, err := cpu.NewShare(tt.name, tt.cpus); err == nil || errors.Is(err, cpu.ErrNotApplied) {
			t.Errorf("NewShare(%q, %v) = %v; want an error about the argument", tt.name, tt.cpus, err)
		}
	}
}
