package disk_test

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/disk"
)

// A machine is a file system in memory that can lose power: whatever was not flushed
// is then there, or not, or in part.
type machine struct {
	mu      sync.Mutex
	names   map[string]*inode // as the running system sees them
	durable map[string]*inode // as they are after a crash
	changes []func(names map[string]*inode)
	locked  map[string]*lock
	sync    time.Duration // how long a flush takes

	// fault is called before each operation, if it is not nil. An error makes the
	// operation fail; of a write, n bytes are done nevertheless.
	fault func(op, name string, size int) (n int, err error)
	bytes int64 // of all files
}

type inode struct {
	data    []byte
	durable []byte
	writes  []span // not flushed
}

type span struct {
	at   int64
	data []byte
	cut  bool // it is a truncation to at
}

type lock struct {
	m    *machine
	name string
}

func newMachine() *machine {
	return &machine{names: map[string]*inode{}, durable: map[string]*inode{}, locked: map[string]*lock{}}
}

// kill ends the process: its locks are gone, all that it wrote is there.
func (m *machine) kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.locked, m.fault = map[string]*lock{}, func(string, string, int) (int, error) { return 0, errors.New("killed") }
}

// boot starts the machine anew. With lost, it has lost power.
func (m *machine) boot(r *rand.Rand, lost bool) *machine {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := newMachine()
	names := m.names
	if lost {
		names = m.durable
		for _, change := range m.changes[:r.IntN(len(m.changes)+1)] {
			change(names)
		}
	}
	for name, f := range names {
		data := f.data
		if lost {
			data = f.lost(r)
		}
		next.names[name] = &inode{data: slices.Clone(data), durable: slices.Clone(data)}
		next.durable[name] = next.names[name]
		next.bytes += int64(len(data))
	}
	return next
}

// lost returns what is left of f after a crash: some of the writes that were not
// flushed, perhaps in part, and zeros instead of others.
func (f *inode) lost(r *rand.Rand) []byte {
	data := slices.Clone(f.durable)
	for _, w := range f.writes {
		switch {
		case w.cut:
			data = data[:min(int64(len(data)), w.at)]
			continue
		case r.IntN(3) == 0:
			continue
		}
		part := w.data
		if r.IntN(3) == 0 {
			part = part[:r.IntN(len(part)+1)]
		}
		data = write(data, w.at, part)
	}
	return data
}

func write(data []byte, at int64, p []byte) []byte {
	if end := int(at) + len(p); end > len(data) {
		data = append(data, make([]byte, end-len(data))...)
	}
	copy(data[at:], p)
	return data
}

func (m *machine) try(op, name string, size int) (int, error) {
	m.mu.Lock()
	fault := m.fault
	m.mu.Unlock()
	if fault == nil {
		return size, nil
	}
	return fault(op, filepath.Base(name), size)
}

func (m *machine) change(f func(names map[string]*inode)) {
	f(m.names)
	m.changes = append(m.changes, f)
}

func (m *machine) Open(name string, create bool) (disk.File, error) {
	op := "open"
	if create {
		op = "create"
	}
	if _, err := m.try(op, name, 0); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.names[name]
	switch {
	case create && f != nil:
		return nil, os.ErrExist
	case !create && f == nil:
		return nil, os.ErrNotExist
	case create:
		f = &inode{}
		m.change(func(names map[string]*inode) { names[name] = f })
	}
	return &handle{m: m, name: name, f: f}, nil
}

func (m *machine) Remove(name string) error {
	if _, err := m.try("remove", name, 0); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.names[name]
	if f == nil {
		return os.ErrNotExist
	}
	m.bytes -= int64(len(f.data))
	m.change(func(names map[string]*inode) { delete(names, name) })
	return nil
}

func (m *machine) Rename(from, to string) error {
	if _, err := m.try("rename", from, 0); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if f := m.names[to]; f != nil {
		m.bytes -= int64(len(f.data))
	}
	f := m.names[from]
	m.change(func(names map[string]*inode) { delete(names, from); names[to] = f })
	return nil
}

func (m *machine) List(folder string, _ int) (names []string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range m.names {
		names = append(names, strings.TrimPrefix(name, folder+"/"))
	}
	return names, nil
}

func (m *machine) Make(string) error { return nil }

func (m *machine) Flush(folder string) error {
	if _, err := m.try("flush", folder, 0); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, change := range m.changes {
		change(m.durable)
	}
	m.changes = nil
	return nil
}

func (m *machine) Lock(name string) (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.locked[name] != nil {
		return nil, disk.ErrInUse
	}
	l := &lock{m, name}
	m.locked[name] = l
	return l, nil
}

func (l *lock) Close() error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	delete(l.m.locked, l.name)
	return nil
}

// A handle is an open file of a machine.
type handle struct {
	m    *machine
	name string
	f    *inode
}

func (h *handle) ReadAt(p []byte, at int64) (int, error) {
	if _, err := h.m.try("read", h.name, len(p)); err != nil {
		return 0, err
	}
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	if at >= int64(len(h.f.data)) {
		return 0, io.EOF
	}
	n := copy(p, h.f.data[at:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (h *handle) WriteAt(p []byte, at int64) (int, error) {
	n, err := h.m.try("write", h.name, len(p))
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	before := len(h.f.data)
	h.f.data = write(h.f.data, at, p[:n])
	h.f.writes = append(h.f.writes, span{at: at, data: slices.Clone(p[:n])})
	h.m.bytes += int64(len(h.f.data) - before)
	return n, err
}

func (h *handle) Truncate(size int64) error {
	if _, err := h.m.try("truncate", h.name, 0); err != nil {
		return err
	}
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	h.m.bytes -= int64(len(h.f.data)) - size
	h.f.data = h.f.data[:size]
	h.f.writes = append(h.f.writes, span{at: size, cut: true})
	return nil
}

func (h *handle) Sync() error {
	if h.m.sync > 0 {
		time.Sleep(h.m.sync)
	}
	if _, err := h.m.try("sync", h.name, 0); err != nil {
		return err
	}
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	h.f.durable, h.f.writes = slices.Clone(h.f.data), nil
	return nil
}

func (h *handle) Size() (int64, error) {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	return int64(len(h.f.data)), nil
}

func (h *handle) Close() error { return nil }

// size returns the bytes of all files.
func (m *machine) size() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bytes
}

// setFault changes the fault.
func (m *machine) setFault(f func(op, name string, size int) (int, error)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fault = f
}

// full is a fault: there is no room for more.
func full(op, _ string, _ int) (int, error) {
	if op == "write" || op == "create" {
		return 0, syscall.ENOSPC
	}
	return 0, nil
}

// flip changes one bit of a file.
func (m *machine) flip(t *testing.T, name string, bit int) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.names[name]
	if f == nil {
		t.Fatalf("there is no file %s", name)
	}
	f.data[bit/8] ^= 1 << (bit % 8)
}

// list returns the names of the files that end so, in their order.
func (m *machine) list(end string) (names []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range m.names {
		if strings.HasSuffix(name, end) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
