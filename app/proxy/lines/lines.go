// Package lines writes the lines of logs, and never blocks for long: a Write to a pipe that is
// not read would.
package lines

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"time"
)

const (
	// MaxBehind is how many bytes of lines may wait to be written.
	MaxBehind = 1 << 20
	// MaxWait is how long a Write waits, for room or for its line to be written. While the
	// line before has not been written for as long, no Write waits.
	MaxWait = 100 * time.Millisecond
)

// ErrBehind is the reason why a line is lost that had no room.
var ErrBehind = errors.New("the log is not read, or read too slowly")

// A Writer passes lines on to a writer, several at once if it is slow. It is safe for
// concurrent use, and calls the writer from one goroutine at a time.
type Writer struct {
	to   io.Writer
	each bool
	lost func(lines int, err error)

	mu      sync.Mutex
	waiting []byte        // guarded by mu
	spare   []byte        // guarded by mu; for the next waiting
	queued  int           // guarded by mu; Writes that wait for room, before which no other has any
	writing time.Time     // guarded by mu; since when; zero: no goroutine is
	next    chan struct{} // guarded by mu; closed when all that is waiting has been written or lost; nil: no Write waits for that
	current chan struct{} // guarded by mu; the next of what is being written
	taken   chan struct{} // guarded by mu; closed when waiting has room again; nil: no Write waits for that
}

// New returns a Writer to to. With each set, Write waits until the line has been written, so
// that the last lines are not lost if the process ends. lost is called for lines that were
// lost, possibly by several goroutines at once.
func New(to io.Writer, each bool, lost func(lines int, err error)) *Writer {
	return &Writer{to: to, each: each, lost: lost}
}

// Write takes one or more whole lines. Its only error is ErrBehind.
func (w *Writer) Write(line []byte) (int, error) {
	w.mu.Lock()
	if !w.room(line) {
		w.mu.Unlock()
		w.lost(bytes.Count(line, newline), ErrBehind)
		return 0, ErrBehind
	}
	w.waiting = append(w.waiting, line...)
	if w.writing.IsZero() {
		w.writing = time.Now()
		go w.drain()
	}
	if w.each {
		w.wait(&w.next, time.Now().Add(MaxWait))
	}
	w.mu.Unlock()
	return len(line), nil
}

var newline = []byte("\n")

// room reports whether there is room for line, and waits for it. mu must be held.
func (w *Writer) room(line []byte) bool {
	fits := func() bool { return len(w.waiting) == 0 || len(w.waiting)+len(line) <= MaxBehind }
	if fits() && (w.queued == 0 || w.writing.IsZero()) {
		return true
	}
	w.queued++
	defer func() { w.queued-- }()
	for end := time.Now().Add(MaxWait); w.wait(&w.taken, end); {
		if fits() {
			return true
		}
	}
	return false
}

// wait waits until done is closed, but not beyond end, nor until the current write has taken
// MaxWait. It reports whether done was closed. mu must be held, and is free in the meantime.
func (w *Writer) wait(done *chan struct{}, end time.Time) bool {
	if stuck := w.writing.Add(MaxWait); stuck.Before(end) {
		end = stuck
	}
	left := time.Until(end)
	if left <= 0 {
		return false
	}
	if *done == nil {
		*done = make(chan struct{})
	}
	c := *done
	w.mu.Unlock()
	defer w.mu.Lock()
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-c:
		return true
	case <-timer.C:
		return false
	}
}

// drain writes until nothing is waiting.
func (w *Writer) drain() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.waiting) > 0 {
		p := w.waiting
		w.waiting, w.spare = w.spare[:0], nil
		w.current, w.next = w.next, nil
		release(&w.taken)
		w.writing = time.Now()
		w.mu.Unlock()
		n, err := w.to.Write(p)
		if err != nil {
			w.lost(bytes.Count(p[min(max(n, 0), len(p)):], newline), err)
		}
		w.mu.Lock()
		w.spare = p
		release(&w.current)
	}
	w.writing = time.Time{}
}

func release(done *chan struct{}) {
	if *done != nil {
		close(*done)
		*done = nil
	}
}

// Flush waits until all lines have been written, or lost, but not longer than for long.
func (w *Writer) Flush(long time.Duration) {
	timer := time.NewTimer(long)
	defer timer.Stop()
	for {
		w.mu.Lock()
		if w.writing.IsZero() {
			w.mu.Unlock()
			return
		}
		done := &w.current
		if len(w.waiting) > 0 {
			done = &w.next
		}
		if *done == nil {
			*done = make(chan struct{})
		}
		c := *done
		w.mu.Unlock()
		select {
		case <-c:
		case <-timer.C:
			return
		}
	}
}
