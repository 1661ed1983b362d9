package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weir-go/weir/jobs/bounded"
	"github.com/weir-go/weir/jobs/embedded/internal/disk"
	"github.com/weir-go/weir/jobs/serve"
)

// A DamageError is what Start returns where jobs are missing from the files, or part
// of a file cannot be read. Nothing was changed. [Repair] recovers what there is.
type DamageError = disk.DamageError

// A Report is what is wrong with the files, and what [Repair] has done about it.
type Report = disk.Report

// ErrNewer is what Start and [Repair] return for files of a newer version of weir.
// Nothing was changed: start that version again.
var ErrNewer = disk.ErrNewer

// A StoreError is that the folder cannot be used as it is: its disk is full, is
// read-only or is not there. The same call may succeed later.
type StoreError struct {
	Dir string
	Err error
}

// Error names the folder and the cause.
func (e *StoreError) Error() string { return fmt.Sprintf("embedded: folder %s: %v", e.Dir, e.Err) }

// Unwrap returns the cause.
func (e *StoreError) Unwrap() error { return e.Err }

// RepairOptions are those of [Repair].
type RepairOptions struct {
	// DryRun reports what would be done, and changes nothing.
	DryRun bool
	// Restored says that the folder was restored from a copy: fences go on far beyond
	// those that the copy knows, so that none comes again.
	Restored bool
}

// Repair recovers the jobs in the folder of a Server that does not run. What it cuts
// is kept, in the folder that the Report names. Its errors are ErrInUse, ErrNewer and a
// StoreError.
func Repair(dir string, o RepairOptions) (*Report, error) {
	if _, err := os.Stat(disk.MarkPath(dir)); err != nil {
		if _, err := os.Stat(dir); err != nil {
			return nil, &StoreError{dir, err} // there never was one
		}
	}
	if o.DryRun {
		if _, err := os.Stat(dir); err != nil { // the lock would make it
			return disk.Repair(dir, disk.RepairOptions{DryRun: true, Restored: o.Restored, Now: time.Now()})
		}
	}
	lock, err := lockFolder(dir)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	r, err := disk.Repair(dir, disk.RepairOptions{
		DryRun: o.DryRun, Restored: o.Restored, Now: time.Now(), Meta: describe,
	})
	if err != nil && !errors.Is(err, ErrNewer) {
		err = &StoreError{dir, err}
	}
	return r, err
}

// maxMeta bounds the description of a stream.
const maxMeta = 1 << 20

// describe makes the description of a stream, by making the stream elsewhere.
func describe(stream string) (text [2][]byte, err error) {
	dir, err := os.MkdirTemp("", "weir-repair-")
	if err != nil {
		return text, err
	}
	defer os.RemoveAll(dir)
	ns, err := server.NewServer(Options{Dir: dir}.withDefaults().serverOptions(0))
	if err != nil {
		return text, err
	}
	ns.Start()
	defer halt(ns)
	nc, err := nats.Connect("", nats.InProcessServer(ns))
	if err != nil {
		return text, err
	}
	defer nc.Close()
	ctx, cancel := context.WithTimeout(context.Background(), consumersWithin)
	defer cancel()
	if err := serve.EnsureStream(ctx, nc, stream[len(disk.StreamPrefix):]); err != nil {
		return text, err
	}
	for i, name := range [2]string{"meta.inf", "meta.sum"} {
		if text[i], err = bounded.File(filepath.Join(dir, "jetstream", server.DEFAULT_GLOBAL_ACCOUNT, "streams", stream, name), maxMeta); err != nil {
			return text, err
		}
	}
	return text, nil
}

// prepare checks the files, and makes them ready for the server.
func (s *Server) prepare() (*disk.Prepared, error) {
	var p *disk.Prepared
	var err error
	s.flush.reset(func() { p, err = disk.Prepare(s.o.Dir, time.Now()) })
	if _, damaged := errors.AsType[*DamageError](err); err != nil && !damaged && !errors.Is(err, ErrNewer) {
		err = &StoreError{s.o.Dir, err}
	}
	if err != nil {
		return nil, err
	}
	if p.Cut > 0 {
		s.o.Log.Info("embedded: the rest of a write that the end of the process cut short was removed; it was never acknowledged", "bytes", p.Cut)
	}
	for _, h := range p.Healed {
		s.o.Log.Warn("embedded: a file that says which jobs were handed out is made anew; all jobs are there", "file", h.File, "why", h.Why)
	}
	s.marks.start(p)
	return p, nil
}

// consumersWithin bounds the wait for a server that has just started.
const consumersWithin = time.Minute

// consumers makes those that are missing.
func (s *Server) consumers(ns *server.Server, queues []disk.Queue) error {
	if len(queues) == 0 {
		return nil
	}
	nc, err := nats.Connect("", nats.InProcessServer(ns), nats.Token(s.o.Token))
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), consumersWithin)
	defer cancel()
	for _, q := range queues {
		if err := serve.EnsureConsumer(ctx, js, q.Namespace, q.Name, q.Lease); err != nil {
			return fmt.Errorf("consumer of queue %s: %w", q.Name, err)
		}
	}
	return nil
}

// marks are what is written beside the folder.
type marks struct {
	mu      sync.Mutex // guards what follows
	mark    disk.Mark
	written time.Time
	failed  bool
}

// markEvery is how often the mark beside the folder is written, if it has changed.
const markEvery = 10 * time.Second

func (m *marks) start(p *disk.Prepared) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mark.Streams = map[string]disk.StreamMark{}
	for _, s := range p.Streams {
		m.mark.Streams[disk.StreamPrefix+s.Namespace] = disk.StreamMark{Last: max(s.Last, s.Mark), Jobs: s.Jobs}
	}
	m.written = time.Time{}
}

// mark writes the mark beside the folder, every markEvery at most, or at the end. With
// DurabilityDisk it also runs before the first job of a stream is acknowledged, so that
// a start after the folder has vanished reports the loss. A failed write is logged once,
// and jobs are still accepted.
func (s *Server) mark(end bool) {
	m := &s.marks
	m.mu.Lock()
	defer m.mu.Unlock()
	last, err := s.flush.marks()
	if err != nil {
		return // the flush says so
	}
	changed := m.written.IsZero() && len(m.mark.Streams) > 0
	fresh := false
	for stream, is := range last {
		was, known := m.mark.Streams[stream]
		fresh = fresh || !known || was.Last == 0
		changed = changed || was.Last < is.Last
	}
	if !changed || !end && !fresh && time.Since(m.written) < markEvery {
		return
	}
	for stream, is := range last {
		was := m.mark.Streams[stream]
		was.Last = max(was.Last, is.Last)
		if n := s.flush.jobs(stream); n >= 0 {
			was.Jobs = n
		}
		m.mark.Streams[stream] = was
	}
	m.written = time.Now()
	m.mark.At = m.written
	err = m.mark.Write(s.o.Dir)
	if err != nil && !m.failed {
		s.o.Log.Info("embedded: without a mark beside the folder, that all of it has vanished is not noticed at a start", "error", err)
	}
	m.failed = err != nil
}

// Err returns why nothing is accepted at the moment, or nil: the disk is full, takes no
// writes, or the folder has vanished.
func (s *Server) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.trouble
}

func (s *Server) setErr(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trouble = err
}

// ErrVanished is the trouble of a Server whose files were removed under it.
var ErrVanished = errors.New("the files of the jobs have vanished while the server ran: nothing is accepted any more. " +
	"Bring the folder back, and reload or restart the proxy")

// vanished reports whether the folder, or one of a stream, is another one by now, or
// none.
func (s *Server) vanished() bool {
	info, err := os.Stat(s.lock.Name())
	was, err2 := s.lock.Stat()
	if errors.Is(err, os.ErrNotExist) || err == nil && err2 == nil && !os.SameFile(info, was) {
		return true
	}
	s.marks.mu.Lock()
	defer s.marks.mu.Unlock()
	for stream := range s.marks.mark.Streams {
		if _, err := os.Stat(filepath.Join(s.flush.dir, stream, "msgs")); errors.Is(err, os.ErrNotExist) {
			return true
		}
	}
	return false
}
