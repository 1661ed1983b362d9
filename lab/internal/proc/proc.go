// Package proc starts processes that do not outlive the program that started
// them.
//
// A process that listens on a port and is left behind by a killed test run is worse
// than a failed test: it disturbs the next run. So on Linux the kernel ends the
// process when this program dies for any reason, and Stop waits until it is gone.
package proc

import (
	"fmt"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// A Process is a started command. Its methods may be called from any
// goroutine.
type Process struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed once the process has been waited for
	err   error         // written before ended is closed, read only after
}

// Start starts cmd in its own process group. On Linux it gets the signal death when
// this program dies. cmd.SysProcAttr may be set before; Start adds to it. Output
// should go to files: with a pipe, Wait also waits for grandchildren that hold its
// other end.
func Start(cmd *exec.Cmd, death syscall.Signal) (*Process, error) { return StartOn(cmd, death, nil) }

// StartOn is Start on only the given processors, for the process and its descendants.
// An empty list means the same processors as this program. If the system does not
// allow it, nothing is started.
func StartOn(cmd *exec.Cmd, death syscall.Signal, cpus []int) (*Process, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	dieWithParent(cmd.SysProcAttr, death)

	p := &Process{cmd: cmd, ended: make(chan struct{})}
	started := make(chan error, 1)
	// This goroutine ends with the process. It keeps its thread until then:
	// the kernel sends the parent-death signal when the thread that forked
	// ends, not the program (golang.org/issue/27505).
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := startOn(cmd, cpus)
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		close(p.ended)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// startOn starts cmd from this thread, whose processors it inherits. Afterwards it
// restores the thread's processors, because other goroutines will run on it. The
// caller has locked the goroutine to its thread.
func startOn(cmd *exec.Cmd, cpus []int) error {
	if len(cpus) == 0 {
		return cmd.Start()
	}
	restore, err := runOn(cpus)
	if err != nil {
		return fmt.Errorf("proc: start %s on processors %v: %w", cmd.Path, cpus, err)
	}
	defer restore()
	return cmd.Start()
}

// Pid returns the process's id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Ended is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Wait waits until the process has ended and returns the result of [exec.Cmd.Wait].
func (p *Process) Wait() error {
	<-p.ended
	return p.err
}

// SignalGroup sends sig to the process and to its children that are still in
// its group.
func (p *Process) SignalGroup(sig syscall.Signal) error {
	select {
	case <-p.ended:
		return nil // the id may already belong to another process
	default:
		return syscall.Kill(-p.Pid(), sig)
	}
}

// Stop sends sig to the process and waits for its end; after grace it kills it and its
// group. Stop does nothing if the process has ended.
func (p *Process) Stop(sig syscall.Signal, grace time.Duration) {
	p.cmd.Process.Signal(sig)
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-p.ended:
		return
	case <-t.C:
	}
	p.SignalGroup(syscall.SIGKILL) //nolint:errcheck // it may end just now
	<-p.ended
}
