package once

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/internal/disk"
	"github.com/weir-go/weir/internal/wait"
	"github.com/weir-go/weir/option"
)

// FolderOptions configure a Folder.
type FolderOptions struct {
	// Folder is created if it does not exist. It belongs to one process at a time. The
	// answers in it are in clear, readable by its user alone.
	Folder string
	// Bytes bounds the records, with what claims reserve for their answers. The file can have
	// twice as many, until it is rewritten. 0 means DefaultBytes, from 16 MiB to 1 TiB.
	Bytes int64
	// Keys bounds the number of keys, about 300 bytes of memory each. 0 means DefaultKeys,
	// at most 100,000,000.
	Keys int

	files disk.Files // nil means those of the system
	slack int64      // 0 means slack
}

// Defaults of FolderOptions.
const (
	DefaultBytes = 1 << 30   // FolderOptions.Bytes
	DefaultKeys  = 1_000_000 // FolderOptions.Keys
)

// ErrInUse is matched by the error of OpenFolder if another process has the folder open.
var ErrInUse = disk.ErrInUse

// Validate returns all faults of o, each an *option.Error; or nil.
func (o FolderOptions) Validate() error {
	f := option.Faults{Package: "once", Prefix: "FolderOptions."}
	f.Check(o.Folder != "", "Folder", "empty", "the path of a folder")
	f.Check(o.Bytes == 0 || o.Bytes >= 16<<20 && o.Bytes <= 1<<40, "Bytes", o.Bytes, "0, or from 16 MiB to 1 TiB")
	f.Check(o.Keys >= 0 && o.Keys <= 100_000_000, "Keys", o.Keys, "from 0 to 100,000,000")
	return f.Err()
}

// A Folder is a Store in a file to which records are appended. Puts that come while the
// file is flushed share the next flush. After a failed flush nothing is written any more,
// because what the file then has is unknown; records that were kept before are still read.
type Folder struct {
	o    FolderOptions
	lock io.Closer

	writing sync.Mutex // held by the goroutine that writes; taken before mu

	mu      sync.Mutex
	file    disk.File
	broken  error // why nothing is written any more
	end     int64 // of what is durable in file
	live    int64 // of these, bytes of records that are still wanted
	version uint64
	table   table
	batch   *batch // what the next write has, or nil
}

// A batch is a group of frames that are written and flushed together.
type batch struct {
	frames []byte
	ended  []func(ok bool) // what each frame does once it is durable, or is not; guarded by Folder.mu
	place  []*position     // of the frames, in relation to the batch until it is written
	done   chan struct{}
	err    error // written before done is closed
}

// A position is where the frame of an entry is. While batch is set, the frame is not
// durable, and no caller may act on it.
type position struct {
	at    int64
	size  int64
	batch *batch // guarded by Folder.mu
}

const (
	fileName = "claims"
	newName  = "claims.new"
	lockName = "lock"
	markSize = frameHead
	// slack is how many bytes of the file may be useless before it is rewritten, however
	// little is wanted.
	slack = 16 << 20
)

// OpenFolder opens a folder. Claims in it belong to calls that cannot be finished any more.
func OpenFolder(o FolderOptions) (*Folder, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o.Bytes, o.Keys, o.slack = cmp.Or(o.Bytes, DefaultBytes), cmp.Or(o.Keys, DefaultKeys), cmp.Or(o.slack, slack)
	if o.files == nil {
		o.files = disk.System()
	}
	if err := o.files.Make(o.Folder); err != nil {
		return nil, fmt.Errorf("once: %w", err)
	}
	lock, err := o.files.Lock(filepath.Join(o.Folder, lockName))
	if err != nil {
		return nil, fmt.Errorf("once: %w", err)
	}
	f := &Folder{o: o, lock: lock, table: newTable(o.Keys, o.Bytes)}
	if err := f.open(); err != nil {
		if f.file != nil {
			_ = f.file.Close() // nothing was written
		}
		_ = lock.Close()
		return nil, fmt.Errorf("once: %s: %w", o.Folder, err)
	}
	return f, nil
}

// open reads the file, or creates it.
func (f *Folder) open() error {
	name := filepath.Join(f.o.Folder, fileName)
	names, err := f.o.files.List(f.o.Folder, 1000)
	if err != nil {
		return err
	}
	if slices.Contains(names, newName) { // it was not renamed, so it is not the file
		if err := f.o.files.Remove(filepath.Join(f.o.Folder, newName)); err != nil {
			return err
		}
	}
	if f.file, err = f.o.files.Open(name, !slices.Contains(names, fileName)); err != nil {
		return err
	}
	if err := f.load(); err != nil {
		return err
	}
	// What load has accepted may not be durable yet: the process before may have ended
	// between a write and its flush.
	if err := f.file.Sync(); err != nil {
		return err
	}
	return f.o.files.Flush(f.o.Folder)
}

// load fills the table from the file, and removes the rest of a write that was not
// flushed from its end.
func (f *Folder) load() error {
	size, err := f.file.Size()
	if err != nil {
		return err
	}
	now := time.Now()
	for f.end < size {
		fr, err := readFrame(f.file, f.end, size)
		if errors.Is(err, errDamaged) {
			at, err := markAfter(f.file, f.end, size)
			if err != nil {
				return err
			}
			if at >= 0 {
				return fmt.Errorf("the file %s is damaged at byte %d: claims in it are lost, and their calls could run again. Move it away to start without claims", fileName, f.end)
			}
			return f.file.Truncate(f.end)
		}
		if err != nil {
			return err
		}
		if fr.kind == kindMark {
			f.end += fr.size
			continue
		}
		f.version = max(f.version, fr.version)
		if old := f.table.entries[fr.id]; old != nil {
			f.drop(old)
		}
		if fr.record != nil && now.Before(fr.record.Expires) {
			e := newEntry(fr.id, fr.version, fr.record, &position{at: f.end, size: fr.size})
			f.table.add(e)
			f.live += fr.size
		}
		f.end += fr.size
	}
	return nil
}

// drop takes e out of the table. f.mu must be held.
func (f *Folder) drop(e *entry) {
	f.table.remove(e)
	f.live -= e.at.size
}

// Get implements [Store].
func (f *Folder) Get(_ context.Context, id Digest) (Stored, error) {
	f.mu.Lock()
	e, err := f.settledLocked(id)
	defer f.mu.Unlock()
	if e == nil || err != nil {
		return Stored{ID: id}, err
	}
	// The file is read under the lock, which a rewrite needs to replace it.
	fr, err := readFrame(f.file, e.at.at, e.at.at+e.at.size)
	if err != nil {
		return Stored{ID: id}, fmt.Errorf("%w: %w", ErrStore, err)
	}
	return Stored{ID: id, Version: e.version, Record: *fr.record}, nil
}

// settledLocked returns the entry of id, nil if there is none, once what was written of it
// is durable. f.mu must be held; it is released while it waits.
func (f *Folder) settledLocked(id Digest) (*entry, error) {
	for {
		e := f.table.entries[id]
		if e == nil || e.waits() == nil {
			if e != nil && !time.Now().Before(e.expires) {
				e = nil
			}
			if f.file == nil {
				return nil, fmt.Errorf("%w: it is closed", ErrStore)
			}
			return e, nil
		}
		b := e.waits()
		f.mu.Unlock()
		<-b.done
		f.mu.Lock()
	}
}

// Put implements [Store].
func (f *Folder) Put(_ context.Context, id Digest, r Record, old uint64) (uint64, error) {
	f.mu.Lock()
	was, err := f.settledLocked(id)
	if err != nil {
		f.mu.Unlock()
		return 0, err
	}
	if was == nil && old != 0 || was != nil && was.version != old {
		f.mu.Unlock()
		return 0, ErrConflict
	}
	version := f.version + 1
	frame, err := appendFrame(nil, id, version, &r)
	if err != nil {
		f.mu.Unlock()
		return 0, err
	}
	e := newEntry(id, version, &r, &position{size: int64(len(frame))})
	if was != nil {
		f.version = version
		return version, f.commitLocked(frame, e.at, was, f.replaces(was, e))
	}
	f.expireLocked(id)
	if err := f.table.admits(e); err != nil {
		f.mu.Unlock()
		return 0, err
	}
	f.version = version
	f.add(e)
	return version, f.commitLocked(frame, e.at, nil, func(ok bool) {
		if !ok {
			f.drop(e)
		}
	})
}

// replaces returns what ends the replacement of was by e, or by nothing. Until its frame is
// durable, was stays in the table: a rewrite must keep it.
func (f *Folder) replaces(was, e *entry) func(ok bool) {
	return func(ok bool) {
		was.leaving = nil
		if !ok {
			return
		}
		f.drop(was)
		if e != nil {
			f.add(e)
		}
	}
}

// add takes e into the table. f.mu must be held.
func (f *Folder) add(e *entry) {
	f.table.add(e)
	f.live += e.at.size
}

// expireLocked drops some entries that have expired, and that of id, which settledLocked
// does not know, if it has. f.mu must be held.
func (f *Folder) expireLocked(id Digest) {
	now := time.Now()
	if e := f.table.entries[id]; e != nil {
		f.drop(e)
	}
	for range 64 {
		e := f.table.oldest()
		if e == nil || now.Before(e.expires) || e.waits() != nil {
			return
		}
		f.drop(e)
	}
}

// Delete implements [Store].
func (f *Folder) Delete(_ context.Context, id Digest, old uint64) error {
	f.mu.Lock()
	was, err := f.settledLocked(id)
	if err == nil && (was == nil || was.version != old) {
		err = ErrConflict
	}
	if err != nil {
		f.mu.Unlock()
		return err
	}
	f.version++
	frame, err := appendFrame(nil, id, f.version, nil)
	if err != nil {
		f.mu.Unlock()
		return err
	}
	at := &position{size: int64(len(frame))}
	return f.commitLocked(frame, at, was, f.replaces(was, nil))
}

// commitLocked makes a frame durable, together with those of others that come in the
// meantime. It replaces the durable entry was, if it is not nil. ended is called with f.mu,
// with whether the frame is durable. f.mu must be held, and is released.
func (f *Folder) commitLocked(frame []byte, at *position, was *entry, ended func(ok bool)) error {
	if f.broken != nil {
		ended(false)
		f.mu.Unlock()
		return fmt.Errorf("%w: %w", ErrStore, f.broken)
	}
	b, leads := f.batch, false
	if b == nil {
		b, leads = &batch{done: make(chan struct{})}, true
		f.batch = b
	}
	at.at, at.batch = markSize+int64(len(b.frames)), b
	if was != nil {
		was.leaving = b
	}
	b.frames = append(b.frames, frame...)
	b.ended, b.place = append(b.ended, ended), append(b.place, at)
	f.mu.Unlock()
	if leads {
		f.writing.Lock()
		f.write(b)
		f.writing.Unlock()
	} else {
		<-b.done
	}
	return b.err
}

// write writes b, and rewrites the file if most of it is useless. f.writing must be held.
func (f *Folder) write(b *batch) {
	f.mu.Lock()
	f.batch = nil
	file, at, err := f.file, f.end, f.broken
	f.mu.Unlock()
	if err == nil && file == nil {
		err = errors.New("it is closed")
	}
	if err == nil {
		b.frames = append(appendMark(nil, at), b.frames...)
		if _, err = file.WriteAt(b.frames, at); err == nil {
			if err = file.Sync(); err != nil {
				f.breaks(err)
			}
		} else if bad := errors.Join(file.Truncate(at), file.Sync()); bad != nil {
			f.breaks(bad)
		}
	}
	f.mu.Lock()
	if err == nil {
		f.end = at + int64(len(b.frames))
		for _, p := range b.place {
			p.at, p.batch = p.at+at, nil
		}
	} else {
		b.err = fmt.Errorf("%w: %w", ErrStore, err)
	}
	for _, ended := range b.ended {
		ended(err == nil)
	}
	close(b.done)
	rewrite := f.broken == nil && f.file != nil && f.end-f.live > max(f.live, f.o.slack)
	f.mu.Unlock()
	if rewrite {
		f.rewrite()
	}
}

func (f *Folder) breaks(err error) {
	f.mu.Lock()
	f.broken = err
	f.mu.Unlock()
}

// rewrite replaces the file by one that has only what is wanted. After an error before the
// new file has its name, the old one stays. f.writing must be held, so that nothing is
// written meanwhile. Entries that wait for the next write are not durable yet, and stay; those
// that it replaces are copied.
func (f *Folder) rewrite() {
	name, temporary := filepath.Join(f.o.Folder, fileName), filepath.Join(f.o.Folder, newName)
	next, err := f.o.files.Open(temporary, true)
	if err != nil {
		return // the next write tries again
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	type move struct {
		p  *position
		at int64
	}
	var moves []move
	end := int64(0)
	err = func() error {
		for p, e := range f.table.durable() {
			fr, err := readFrame(f.file, p.at, p.at+p.size)
			if err != nil {
				return err
			}
			frame, err := appendFrame(nil, e.id, fr.version, fr.record)
			if err != nil {
				return err
			}
			if _, err := next.WriteAt(frame, end); err != nil {
				return err
			}
			moves = append(moves, move{p, end})
			end += int64(len(frame))
		}
		// Damage in it is never mistaken for a write that was cut off.
		if _, err := next.WriteAt(appendMark(nil, end), end); err != nil {
			return err
		}
		end += markSize
		return next.Sync()
	}()
	if err == nil {
		err = f.o.files.Rename(temporary, name)
	}
	if err != nil {
		_ = next.Close()
		_ = f.o.files.Remove(temporary)
		return
	}
	if err := f.o.files.Flush(f.o.Folder); err != nil {
		f.broken = err // which of the two files has the name after a crash is unknown
	}
	_ = f.file.Close()
	f.file, f.end = next, end
	for _, m := range moves {
		m.p.at = m.at
	}
}

// List implements [Store].
func (f *Folder) List(_ context.Context, most int, states ...State) ([]Stored, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil {
		return nil, fmt.Errorf("%w: it is closed", ErrStore)
	}
	var all []Stored
	now := time.Now()
	for p, e := range f.table.durable() {
		if len(all) == most {
			break
		}
		if !slices.Contains(states, e.state) || !now.Before(e.expires) {
			continue
		}
		fr, err := readFrame(f.file, p.at, p.at+p.size)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrStore, err)
		}
		fr.record.Header, fr.record.Trailer, fr.record.Body = nil, nil, nil
		all = append(all, Stored{ID: e.id, Version: e.version, Record: *fr.record})
	}
	return all, nil
}

// Usage implements [Store].
func (f *Folder) Usage() Usage {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.table.usage()
}

// Close waits for writes until ctx ends, and closes the folder. Afterwards the Folder refuses
// everything. If ctx ends first, the folder is closed once the writes have ended.
func (f *Folder) Close(ctx context.Context) error {
	closed := make(chan error, 1)
	if err := wait.For(ctx, func() { closed <- f.close() }); err != nil {
		return err
	}
	return <-closed
}

func (f *Folder) close() error {
	f.writing.Lock()
	defer f.writing.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil {
		return nil
	}
	err := errors.Join(f.file.Close(), f.lock.Close())
	f.file = nil
	return err
}
