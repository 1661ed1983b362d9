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
	"github.com/weir-go/weir/jobs/embedded/internal/keep"
	"github.com/weir-go/weir/jobs/serve"
)

// A DamageError is returned by Start if jobs are missing from the files, or part of a
// file cannot be read. Nothing was changed. [Repair] recovers what is left.
type DamageError = disk.DamageError

// A Report lists what is wrong with the files, and what [Repair] has done about it.
type Report = disk.Report

// ErrNewer is returned by Start and [Repair] for files written by a newer version of
// weir. Nothing was changed: start that version again.
var ErrNewer = disk.ErrNewer

// ErrNoJobs is returned by [Repair] for a folder that is not one of a Server, or that
// never had jobs: neither the folder nor its mark contains a trace of any.
var ErrNoJobs = errors.New("embedded: folder contains no jobs of weir")

// A StoreError reports that the folder cannot be used at the moment: its disk is full
// or read-only, or the folder is missing. The same call may succeed later.
type StoreError struct {
	Dir string // folder of the store
	Err error  // the cause
}

// Error names the folder and the cause.
func (e *StoreError) Error() string { return fmt.Sprintf("embedded: folder %s: %v", e.Dir, e.Err) }

// Unwrap returns the cause.
func (e *StoreError) Unwrap() error { return e.Err }

// A RecoveryError is returned by Start if the embedded server lost jobs while it started on
// undamaged files, or if the process ended twice in a row during that. The files have been
// put back as they were. It is not worth repeating without a change: report it, or use
// another version.
type RecoveryError struct {
	Dir string // folder of the store
	Err error  // the cause
}

// Error names the folder and the cause.
func (e *RecoveryError) Error() string {
	return fmt.Sprintf("embedded: folder %s: the embedded server could not be started without a loss of jobs: %v. "+
		"Its files have been put back as they were, and no job is lost. "+
		"Keep a copy of the folder and report this; reload or restart the proxy to try again", e.Dir, e.Err)
}

// Unwrap returns the cause.
func (e *RecoveryError) Unwrap() error { return e.Err }

// RepairOptions are the options of [Repair].
type RepairOptions struct {
	// DryRun reports what Repair would do, and changes nothing.
	DryRun bool
	// Restored says that the folder was restored from a copy. New fences then start
	// far beyond those in the copy, so that none is used twice.
	Restored bool
}

// Repair recovers the jobs in the folder of a Server that is not running. It keeps
// what it cuts in the folder that the Report names. Its errors are ErrInUse, ErrNewer,
// ErrNoJobs and StoreError.
func Repair(dir string, o RepairOptions) (*Report, error) {
	if _, err := os.Stat(disk.MarkPath(dir)); err != nil {
		if _, err := os.Stat(dir); err != nil {
			return nil, &StoreError{dir, err} // there never was a folder
		}
	}
	// Before the lock, whose file would make any folder look like one with jobs.
	if left, _ := keep.Left(dir); left {
		// There are jobs in the copy.
	} else if some, err := disk.HasJobs(dir); err != nil && !errors.Is(err, ErrNewer) {
		return nil, &StoreError{dir, err}
	} else if err == nil && !some {
		return nil, fmt.Errorf("%w: %s", ErrNoJobs, dir)
	}
	lock := lockFolder
	if o.DryRun {
		lock = lockExisting
	}
	locked, err := lock(dir)
	if err != nil {
		return nil, err
	}
	if locked != nil {
		defer locked.Close()
	}
	if err := repairLeft(dir, o.DryRun); err != nil {
		return nil, &StoreError{dir, err}
	}
	r, err := disk.Repair(dir, disk.RepairOptions{
		DryRun: o.DryRun, Restored: o.Restored, Now: time.Now(), Meta: describe,
	})
	if err != nil && !errors.Is(err, ErrNewer) {
		err = &StoreError{dir, err}
	}
	return r, err
}

// maxMeta bounds the size of a stream's metadata file.
const maxMeta = 1 << 20

// describe returns the metadata of a stream, by creating that stream in a temporary
// folder.
func describe(stream string) (text [2][]byte, err error) {
	dir, err := os.MkdirTemp("", "weir-repair-")
	if err != nil {
		return text, err
	}
	defer os.RemoveAll(dir)
	ns, err := server.NewServer(Options{Dir: dir}.withDefaults().serverOptions(0, nil))
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

// consumersWithin bounds the wait for a server that has just started.
const consumersWithin = time.Minute

// consumers creates the consumers that are missing.
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

// marks is the state of the mark file beside the folder.
type marks struct {
	mu      sync.Mutex // guards the fields below
	mark    disk.Mark
	written time.Time
	failed  bool
	live    map[string]bool // streams that the server has recovered, or has been given jobs for
}

// markEvery is how often the mark file is written while it changes.
const markEvery = 10 * time.Second

func (m *marks) start(p *disk.Prepared) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mark.Streams, m.live = map[string]disk.StreamMark{}, map[string]bool{}
	for _, s := range p.Streams {
		m.mark.Streams[disk.StreamPrefix+s.Namespace] = disk.StreamMark{Last: max(s.Last, s.Mark), Jobs: s.Jobs}
	}
	m.written = time.Time{}
}

// serve adds a stream that the server has. A folder without one is left if a process ends
// while it creates the stream; the server passes over it.
func (m *marks) serve(stream string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.live[stream] = true
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
		return // the flush reports it
	}
	changed := m.written.IsZero() && len(m.mark.Streams) > 0
	fresh := false
	for stream, is := range last {
		m.live[stream] = true
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
		s.o.Log.Info("embedded: cannot write the mark beside the folder; a start would not notice that the whole folder has vanished", "error", err)
	}
	m.failed = err != nil
}

// Err returns why the server currently accepts no new jobs, or nil. The reason is that
// the disk is full or not writable, or that the folder has vanished. Jobs that were
// accepted may still run; see Down.
func (s *Server) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, err := range []error{s.down, s.trouble, s.probe, s.pressed} {
		if err != nil {
			return err
		}
	}
	return nil
}

// Down returns why there is currently no server for jobs at all, or nil. It may end without
// a restart, unless it is ErrVanished, ErrNewer, a [DamageError] or a [RecoveryError].
func (s *Server) Down() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.down
}

func (s *Server) setErr(err error) { s.set(&s.trouble, err) }

func (s *Server) setLow(err error) { s.set(&s.pressed, err) }

func (s *Server) setProbed(err error) { s.set(&s.probe, err) }

func (s *Server) setDown(err error) { s.set(&s.down, err) }

// set sets one of the reasons of Err.
func (s *Server) set(reason *error, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*reason = err
}

// ErrVanished is the error of a Server whose files were removed while it ran.
var ErrVanished = errors.New("the files of the jobs vanished while the server was running; it no longer accepts jobs. " +
	"Restore the folder, then reload or restart the proxy")

// vanished reports whether the folder, or the folder of a stream, is missing or was
// replaced.
func (s *Server) vanished() bool {
	info, err := os.Stat(s.lock.Name())
	was, err2 := s.lock.Stat()
	if errors.Is(err, os.ErrNotExist) || err == nil && err2 == nil && !os.SameFile(info, was) {
		return true
	}
	s.marks.mu.Lock()
	defer s.marks.mu.Unlock()
	for stream := range s.marks.live {
		if _, err := os.Stat(filepath.Join(s.flush.dir, stream, "msgs")); errors.Is(err, os.ErrNotExist) {
			return true
		}
	}
	return false
}
