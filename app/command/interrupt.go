package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
)

// ErrInterrupted is the cause with which a command's context ends at the first
// signal.
var ErrInterrupted = errors.New("interrupted")

// An ending watches for signals while a command runs. Its goroutine starts in
// interruptible; stop ends it and waits for it.
type ending struct {
	program string
	cancel  context.CancelCauseFunc
	quit    chan struct{}
	done    chan struct{}

	mu      sync.Mutex
	left    string        // guarded by mu; what a second signal would leave behind
	hangups chan struct{} // guarded by mu; nil: SIGHUP asks the program to end
}

func (e Env) interruptible(ctx context.Context, program string) (context.Context, *ending) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &ending{program: program, cancel: cancel, quit: make(chan struct{}), done: make(chan struct{})}
	go w.watch(e)
	return ctx, w
}

func (w *ending) watch(e Env) {
	defer close(w.done)
	if !w.asked(e.Signals) {
		return
	}
	w.cancel(ErrInterrupted)
	if w.asked(e.Signals) {
		fmt.Fprintln(e.Stderr, w.program+": interrupted again, and ended at once"+w.leftBehind())
		e.Exit(ExitFailed)
	}
}

// asked waits until a signal asks the program to stop (true), or until it has ended.
func (w *ending) asked(signals <-chan os.Signal) bool {
	for {
		select {
		case sig := <-signals:
			if sig == syscall.SIGHUP && w.hangUp() {
				continue
			}
			return true
		case <-w.quit:
			return false
		}
	}
}

// hangUp forwards a SIGHUP, and reports whether the command handles them. A pending one is
// enough.
func (w *ending) hangUp() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hangups == nil {
		return false
	}
	select {
	case w.hangups <- struct{}{}:
	default:
	}
	return true
}

// catchHangups keeps SIGHUP from stopping the program.
func (w *ending) catchHangups() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hangups == nil {
		w.hangups = make(chan struct{}, 1)
	}
	return w.hangups
}

// leaves returns what would be left behind if the program stopped at once; "" means
// nothing.
func (w *ending) leaves(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left = what
}

func (w *ending) leftBehind() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.left == "" {
		return ""
	}
	return "; may be left behind: " + w.left
}

func (w *ending) stop() {
	close(w.quit)
	<-w.done
	w.cancel(nil)
}
