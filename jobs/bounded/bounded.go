// Package bounded reads what others write: files of any kind, and streams. Nothing
// that it reads is larger, or takes longer, than its caller says. Shipped code reads
// whole files and streams here and nowhere else; a rule of the repository checks that.
package bounded

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"
)

// Patience is how long File waits for a file that is slow to give what it has, such
// as a FIFO that nobody writes to.
const Patience = 10 * time.Second

// pause is how often a FIFO without a writer is looked at.
const pause = 5 * time.Millisecond

// arrival is how long a FIFO that has given something before is left to a writer.
// One that waits in its open until somebody reads needs a moment to get going, and
// would write into nothing if the reader left at once.
const arrival = 100 * time.Millisecond

// A SizeError is the end of a read that would have been larger than it may be.
type SizeError struct{ Most int64 }

func (e *SizeError) Error() string { return fmt.Sprintf("is larger than %d bytes", e.Most) }

// A TimeError is the end of a read that took too long.
type TimeError struct{ Patience time.Duration }

func (e *TimeError) Error() string {
	return fmt.Sprintf("has not been read to its end within %v", e.Patience)
}

// Timeout reports true, as those of package net do.
func (e *TimeError) Timeout() bool { return true }

// All reads r to its end. If that is not within most bytes the error is a
// *SizeError, and there is no data.
func All(r io.Reader, most int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, most+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > most {
		return nil, &SizeError{most}
	}
	return data, nil
}

// File reads a file of at most a number of bytes: a regular one, a FIFO, such as a
// shell's <(command), a terminal, a device. It takes Patience at most, then its error
// is a *TimeError; see All for the other.
//
// A FIFO gives what it has once. What it gave is remembered, so that the next File of
// it returns the same, unless somebody writes to it again. At most maxPipes of them
// are remembered.
func File(name string, most int64) ([]byte, error) {
	return file(name, most, Patience)
}

func file(name string, most int64, patience time.Duration) ([]byte, error) {
	type result struct {
		data []byte
		err  error
	}
	done := make(chan result, 1)
	// A read of a file system that hangs cannot be broken off: this goroutine ends
	// when the system lets it. All others end by their deadline.
	go func() {
		data, err := read(name, most, time.Now().Add(patience))
		done <- result{data, err}
	}()
	timer := time.NewTimer(patience + patience/4)
	defer timer.Stop()
	select {
	case r := <-done:
		if errors.Is(r.err, os.ErrDeadlineExceeded) {
			r.err = &TimeError{patience}
		}
		return r.data, r.err
	case <-timer.C:
		return nil, &TimeError{patience}
	}
}

// read reads a file until the deadline.
func read(name string, most int64, deadline time.Time) ([]byte, error) {
	// Without O_NONBLOCK the open of a FIFO waits for a writer, and cannot be
	// interrupted.
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, &fs.PathError{Op: "read", Path: name, Err: syscall.EISDIR}
	case info.Mode().IsRegular() && info.Size() > most:
		return nil, &SizeError{most}
	}
	_ = f.SetReadDeadline(deadline) // what knows no deadlines does not make us wait
	r := io.Reader(&timed{f, deadline})
	if info.Mode()&fs.ModeNamedPipe == 0 {
		return All(r, most)
	}
	known, remembered := pipes.of(name, info)
	arrived := time.Now().Add(arrival)
	for {
		data, err := All(r, most)
		if err != nil {
			return nil, err
		}
		switch {
		case len(data) > 0:
			pipes.remember(name, info, data)
			return data, nil
		case remembered && !time.Now().Before(arrived):
			return known, nil
		case !time.Now().Before(deadline):
			return nil, os.ErrDeadlineExceeded
		}
		<-time.After(pause) // there is no writer yet, or one that wrote nothing
	}
}

// timed ends the reads of what has no end and no deadlines.
type timed struct {
	f        *os.File
	deadline time.Time
}

func (t *timed) Read(p []byte) (int, error) {
	if !time.Now().Before(t.deadline) {
		return 0, os.ErrDeadlineExceeded
	}
	return t.f.Read(p)
}

// maxPipes is how many FIFOs are remembered, the latest.
const maxPipes = 64

// pipes are what FIFOs have given, for the process: a FIFO is read once, wherever in
// the program.
var pipes memory

type memory struct {
	mu   sync.Mutex
	list []pipe // guarded by mu; the latest is last
}

type pipe struct {
	name string // beside info: what is deleted leaves its number to others
	info fs.FileInfo
	data []byte
}

func (m *memory) of(name string, info fs.FileInfo) ([]byte, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.list {
		if p.name == name && os.SameFile(p.info, info) {
			return p.data, true
		}
	}
	return nil, false
}

func (m *memory) remember(name string, info fs.FileInfo, data []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, p := range m.list {
		if p.name == name && os.SameFile(p.info, info) {
			m.list = append(m.list[:i], m.list[i+1:]...)
			break
		}
	}
	if len(m.list) == maxPipes {
		m.list = m.list[1:]
	}
	m.list = append(m.list, pipe{name, info, data})
}
