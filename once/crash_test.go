package once

import (
	"errors"
	"io"
	"math/rand/v2"
	"path/filepath"
	"sync"

	"github.com/weir-go/weir/internal/disk"
)

// A faultyDisk is a file system in memory that ends at one of its steps, as with a crash:
// what was not flushed is then lost, or partly there.
type faultyDisk struct {
	mu    sync.Mutex
	rand  *rand.Rand
	steps int // until it ends; negative: never
	names map[string]*faultyFile
	kept  map[string]*faultyFile // names that survive
	hold  func()                 // called once, by the next Sync
}

var errCrash = errors.New("the machine has crashed")

func newFaultyDisk(seed uint64) *faultyDisk {
	return &faultyDisk{rand: rand.New(rand.NewPCG(seed, 1)), steps: -1, names: map[string]*faultyFile{}, kept: map[string]*faultyFile{}}
}

// step counts a step, and reports whether the machine still runs. d.mu must be held.
func (d *faultyDisk) step() bool {
	if d.steps > 0 {
		d.steps--
	}
	return d.steps != 0
}

// crashed reports whether the machine has ended.
func (d *faultyDisk) crashed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.steps == 0
}

// restart starts again, with what survives: all that was written, if only the process has
// ended.
func (d *faultyDisk) restart(steps int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.steps = steps
	if d.rand.IntN(2) == 0 {
		return
	}
	names := map[string]*faultyFile{}
	for name, f := range d.kept {
		next := &faultyFile{d: d, durable: f.durable}
		for _, w := range f.pending { // any part of it
			if d.rand.IntN(2) == 0 {
				continue
			}
			next.durable = patched(next.durable, w.at, w.p[:d.rand.IntN(len(w.p)+1)])
		}
		next.content = append([]byte(nil), next.durable...)
		names[name] = next
	}
	d.names = names
	d.kept = map[string]*faultyFile{}
	for name, f := range names {
		d.kept[name] = f
	}
}

func patched(b []byte, at int64, p []byte) []byte {
	b = append([]byte(nil), b...)
	if short := int(at) + len(p) - len(b); short > 0 {
		b = append(b, make([]byte, short)...)
	}
	copy(b[at:], p)
	return b
}

func (d *faultyDisk) Open(name string, create bool) (disk.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.step() {
		return nil, errCrash
	}
	f := d.names[name]
	if create == (f != nil) {
		return nil, errors.New("exists, or does not")
	}
	if create {
		f = &faultyFile{d: d}
		d.names[name] = f
	}
	return f, nil
}

func (d *faultyDisk) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.step() {
		return errCrash
	}
	delete(d.names, name)
	return nil
}

func (d *faultyDisk) Rename(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.step() {
		return errCrash
	}
	d.names[to] = d.names[from]
	delete(d.names, from)
	if d.rand.IntN(2) == 0 { // it may survive without a flush
		d.kept[to] = d.names[to]
	}
	return nil
}

func (d *faultyDisk) List(string, int) (names []string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name := range d.names {
		names = append(names, filepath.Base(name))
	}
	return names, nil
}

func (d *faultyDisk) Make(string) error { return nil }

func (d *faultyDisk) Flush(string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.step() {
		return errCrash
	}
	d.kept = map[string]*faultyFile{}
	for name, f := range d.names {
		d.kept[name] = f
	}
	return nil
}

func (d *faultyDisk) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }

type faultyFile struct {
	d                *faultyDisk
	durable, content []byte
	pending          []faultyWrite
}

type faultyWrite struct {
	at int64
	p  []byte
}

func (f *faultyFile) ReadAt(p []byte, at int64) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if at >= int64(len(f.content)) {
		return 0, io.EOF
	}
	n := copy(p, f.content[at:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *faultyFile) WriteAt(p []byte, at int64) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	f.pending = append(f.pending, faultyWrite{at, append([]byte(nil), p...)})
	if !f.d.step() {
		return 0, errCrash
	}
	f.content = patched(f.content, at, p)
	return len(p), nil
}

func (f *faultyFile) Size() (int64, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	return int64(len(f.content)), nil
}

func (f *faultyFile) Truncate(size int64) error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if !f.d.step() {
		return errCrash
	}
	f.content = f.content[:size:size]
	if int64(len(f.durable)) > size {
		f.durable = f.durable[:size:size]
	}
	f.pending = nil
	return nil
}

func (f *faultyFile) Sync() error {
	f.d.mu.Lock()
	hold := f.d.hold
	f.d.hold = nil
	f.d.mu.Unlock()
	if hold != nil {
		hold()
	}
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if !f.d.step() {
		return errCrash
	}
	f.durable, f.pending = append([]byte(nil), f.content...), nil
	return nil
}

func (f *faultyFile) Close() error { return nil }
