package embedded

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/weir-go/weir/jobs/embedded/internal/disk"
	"github.com/weir-go/weir/jobs/embedded/internal/keep"
	"github.com/weir-go/weir/jobs/embedded/internal/writable"
)

// mostCrashes is how many starts in a row may end with the process before starts are no
// longer repeated.
const mostCrashes = 2

var (
	errCrashed = errors.New("the process ended while the embedded server was starting; its files have been put back as they were")
	errPutBack = errors.New("putting its files back as they were failed; the next start tries it again")
)

// start starts the embedded server, or leaves nothing running and the files as they were:
//
//  1. If an earlier start did not come to its end, it puts the files back, and fails.
//  2. Nothing foreign may be among the files. It reads all of them. They must be complete,
//     see [DamageError].
//  3. Every folder and file must be usable.
//  4. It copies the files, see package keep.
//  5. It prepares them, and starts the server on them.
//  6. It compares the server's streams with the files, before the gate lets in anybody
//     who could submit a job.
//  7. It removes the copy. After an error in 5 or 6, it puts the copy back instead.
func (s *Server) start() (*server.Server, error) {
	s.gate.shut()
	if err := s.restore(); err != nil {
		return nil, err
	}
	report, err := s.sound()
	if err != nil {
		return nil, err
	}
	copied, err := s.copy()
	if err != nil {
		return nil, err
	}
	ns, err := s.launch(report)
	if err == nil && copied {
		if err = keep.Drop(s.o.Dir); err != nil {
			halt(ns)
			err = &StoreError{s.o.Dir, err}
		}
	}
	if err != nil {
		return nil, s.undo(copied, err)
	}
	s.gate.let()
	return ns, nil
}

// restore puts back what a process that has ended during its start has left.
func (s *Server) restore() error {
	left, crashed := keep.Left(s.o.Dir)
	if !left {
		return nil
	}
	if err := keep.Back(s.o.Dir, true); err != nil {
		return &StoreError{s.o.Dir, fmt.Errorf("%w: %w", errPutBack, err)}
	}
	if crashed+1 >= mostCrashes {
		return &RecoveryError{s.o.Dir, errCrashed}
	}
	return &StoreError{s.o.Dir, errCrashed}
}

// sound reads the files, and returns why the server cannot be started on them.
func (s *Server) sound() (report *disk.Report, err error) {
	if err := disk.Foreign(s.o.Dir); err != nil {
		return nil, &StoreError{s.o.Dir, err}
	}
	s.flush.reset(func() { report, err = disk.Sound(s.o.Dir, time.Now()) })
	if _, damaged := errors.AsType[*DamageError](err); err != nil && !damaged && !errors.Is(err, ErrNewer) {
		err = &StoreError{s.o.Dir, err}
	}
	if err == nil {
		err = s.usable()
	}
	return report, err
}

// A start of the server must be able to open some files at a time, and some more for each
// stream.
const (
	descriptors       = 64
	descriptorsStream = 4
)

// usable returns why the server could not use a folder or a file.
func (s *Server) usable() error {
	err := writable.Folder(s.o.Dir)
	for _, tree := range disk.Trees {
		if err == nil {
			err = writable.Tree(filepath.Join(s.o.Dir, tree))
		}
	}
	if err == nil {
		err = writable.Descriptors(descriptors + descriptorsStream*len(s.flush.streams()))
	}
	if err != nil {
		return &StoreError{s.o.Dir, err}
	}
	return nil
}

// copy copies the files. It reports false if the file system has no links.
func (s *Server) copy() (bool, error) {
	last, err := disk.LastBlocks(s.o.Dir)
	if err == nil {
		err = keep.Take(s.o.Dir, disk.Trees, disk.Kept(last))
	}
	switch {
	case errors.Is(err, keep.ErrNoLinks):
		s.o.Log.Warn("embedded: the files of the jobs are not copied before the start, because that needs hard links; "+
			"files that the embedded server loses cannot be put back", "folder", s.o.Dir, "error", err)
		return false, nil
	case err != nil:
		return false, &StoreError{s.o.Dir, fmt.Errorf("copying its files before the start: %w", err)}
	}
	return true, nil
}

// undo puts the files back after a start that has failed with err.
func (s *Server) undo(copied bool, err error) error {
	if !copied {
		return err
	}
	if left, _ := keep.Left(s.o.Dir); !left {
		return err // it was the removal of the copy that has failed
	}
	s.flush.reset(func() {})
	if back := keep.Back(s.o.Dir, false); back != nil {
		return &StoreError{s.o.Dir, errors.Join(err, fmt.Errorf("%w: %w", errPutBack, back))}
	}
	return err
}

// isPrepared is called before the embedded server is started; tests replace it.
var isPrepared = func(dir string) {}

// launch prepares the files, starts the embedded server, and compares.
func (s *Server) launch(report *disk.Report) (*server.Server, error) {
	before, err := storedStreams(s.o.Dir, server.DEFAULT_GLOBAL_ACCOUNT)
	if err != nil {
		return nil, &StoreError{s.o.Dir, err}
	}
	prepared, err := s.prepare(report)
	if err != nil {
		return nil, err
	}
	isPrepared(s.o.Dir)
	ns, err := server.NewServer(s.o.serverOptions(s.port, s.gate))
	if err != nil {
		return nil, fmt.Errorf("embedded: %w", err)
	}
	s.log.begin()
	ns.SetLogger(s.log, false, false)
	ns.Start() // returns once everything is recovered and the port is open
	said, err := s.log.end()
	if err != nil {
		err = fmt.Errorf("embedded: starting the server: %w", err)
	}
	if err == nil {
		err = s.compare(ns, prepared, before, said)
	}
	if err == nil {
		if err = s.consumers(ns, prepared.Queues); err != nil {
			err = fmt.Errorf("embedded: starting the server: %w", err)
		}
	}
	if err != nil {
		halt(ns)
		return nil, err
	}
	return ns, nil
}

// prepare gets the files ready for the server.
func (s *Server) prepare(r *disk.Report) (*disk.Prepared, error) {
	p, err := disk.Prepare(r, time.Now())
	if err != nil {
		return nil, &StoreError{s.o.Dir, err}
	}
	if p.Cut > 0 {
		s.o.Log.Info("embedded: removed an incomplete write left by a killed process; it was never acknowledged", "bytes", p.Cut)
	}
	for _, h := range p.Healed {
		s.o.Log.Warn("embedded: rebuilding a file that records which jobs were handed out; no job is lost", "file", h.File, "why", h.Why)
	}
	s.marks.start(p)
	return p, nil
}

// compare returns an error if a stream, or a message of a stream with jobs, was in the
// files and is not in the server. The server skips streams that it cannot read; they
// would later be created again, empty.
func (s *Server) compare(ns *server.Server, p *disk.Prepared, before []string, said string) error {
	detail, err := ns.JszAccount(&server.JSzOptions{Account: server.DEFAULT_GLOBAL_ACCOUNT, Streams: true})
	if err != nil {
		return fmt.Errorf("embedded: comparing the streams: %w", err)
	}
	has := map[string]disk.Has{}
	for _, d := range detail.Streams {
		has[d.Name] = disk.Has{Messages: d.State.Msgs, Last: d.State.LastSeq}
		if strings.HasPrefix(d.Name, disk.StreamPrefix) {
			s.marks.serve(d.Name)
		}
	}
	var errs []error
	if err := p.Lacks(has, time.Now()); err != nil {
		errs = append(errs, err)
	}
	for _, name := range before {
		if _, there := has[name]; !there {
			errs = append(errs, fmt.Errorf("stream %s was not recovered", name))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	if said != "" {
		errs = append(errs, fmt.Errorf("the embedded server logged: %s", said))
	}
	return &RecoveryError{s.o.Dir, errors.Join(errs...)}
}

// repairLeft puts back what a process that has ended during its start has left, before a
// repair.
func repairLeft(dir string, dryRun bool) error {
	if left, _ := keep.Left(dir); !left {
		return nil
	}
	if dryRun {
		return fmt.Errorf("%w once it is repaired without --dry-run, or the proxy is started", errCrashedLeft)
	}
	return keep.Back(dir, true)
}

var errCrashedLeft = errors.New("the process ended while the embedded server was starting; its files are put back as they were")
