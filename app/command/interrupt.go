package command

import (
	"context"
	"errors"
	"fmt"
	"sync"
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

	mu   sync.Mutex
	left string // guarded by mu; what a second signal would leave behind
}

func (e Env) interruptible(ctx context.Context, program string) (context.Context, *ending) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &ending{program: program, cancel: cancel, quit: make(chan struct{}), done: make(chan struct{})}
	go w.watch(e)
	return ctx, w
}

func (w *ending) watch(e Env) {
	defer close(w.done)
	select {
	case <-e.Signals:
		w.cancel(ErrInterrupted)
	case <-w.quit:
		return
	}
	select {
	case <-e.Signals:
		fmt.Fprintln(e.Stderr, w.program+": interrupted again, and ended at once"+w.leftBehind())
		e.Exit(ExitFailed)
	case <-w.quit:
	}
}

// leaves says what would be left behind if the program ended at once; "" means
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
