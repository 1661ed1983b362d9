// Package bounded reads untrusted input: files of any kind, and streams. No read is
// larger, or takes longer, than its caller allows. Shipped code reads whole files and
// streams only here; a repository test checks that.
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

// Patience is how long File waits for a file that is slow, such as a FIFO without a
// writer.
const Patience = 10 * time.Second

// pause is the interval at which a FIFO without a writer is polled.
const pause = 5 * time.Millisecond

// arrival is how long File waits for a writer on a FIFO that it has already read. A
// writer that is blocked in its open until there is a reader takes a moment to start,
// and its write would fail if the reader left at once.
const arrival = 100 * time.Millisecond

// A SizeError means that the data is larger than Most bytes.
type SizeError struct{ Most int64 }

func (e *SizeError) Error() string { return fmt.Sprintf("is larger than %d bytes", e.Most) }

// A TimeError means that the read did not reach the end within Patience.
type TimeError struct{ Patience time.Duration }

func (e *TimeError) Error() string {
	return fmt.Sprintf("has not been read to its end within %v", e.Patience)
}

// Timeout returns true, as for timeouts of package net.
func (e *TimeError) Timeout() bool { return true }

// All reads r to its end. If r has more than most bytes, it returns no data and a
// *SizeError.
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

// File reads a file of at most most bytes: a regular file, a FIFO, such as a shell's
// <(command), a terminal, or a device. After Patience it returns a *TimeError; if the
// file is too large, a *SizeError as from All.
//
// A FIFO provides its data only once. File remembers the data, and returns it again
// at the next call, unless the FIFO has been written to again. It remembers at most
// maxPipes of them.
func File(name string, most int64) ([]byte, error) {
	return file(name, most, Patience)
}

func file(name string, most int64, patience time.Duration) ([]byte, error) {
	type result struct {
		data []byte
		err  error
	}
	done := make(chan result, 1)
	// A read of a file system that hangs cannot be interrupted: this goroutine ends
	// when the operating system returns. All other reads end by their deadline.
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
	_ = f.SetReadDeadline(deadline) // fails for files without deadlines, whose reads do not block
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
		<-time.After(pause) // there is no writer yet, or one that has written nothing
	}
}

// timed ends the reads of an endless file that does not support deadlines.
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

// maxPipes is the number of FIFOs that are remembered: the latest ones.
const maxPipes = 64

// pipes has the data of the FIFOs that this process has read: a FIFO is read only
// once, anywhere in the program.
var pipes memory

type memory struct {
	mu   sync.Mutex
	list []pipe // guarded by mu; the latest is last
}

type pipe struct {
	name string // in addition to info: the inode of a deleted file can be reused
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
