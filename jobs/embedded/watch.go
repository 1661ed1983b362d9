package embedded

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/embedded/internal/disk"
	"github.com/weir-go/weir/jobs/embedded/internal/keep"
	"github.com/weir-go/weir/jobs/embedded/internal/writable"
)

// lookEvery is how often the disk is checked and, after a failure, retried.
const lookEvery = 250 * time.Millisecond

// freeOn is freeBytes; tests replace it to simulate a full disk.
var freeOn = freeBytes

// watch keeps the embedded server the limits of its disk, until Close.
func (s *Server) watch() {
	defer close(s.watched)
	defer s.spares.release()
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for looks := 1; ; looks++ {
		select {
		case <-s.stop:
			return
		case <-s.log.broken:
			if !s.vanished() && !s.revive(ticker.C) {
				return
			}
		case <-ticker.C:
		}
		if s.vanished() {
			s.giveUp()
			return
		}
		s.mark(false)
		if looks%int(markEvery/lookEvery) == 0 {
			s.keepMeta()
		}
		if s.o.Durability == jobs.DurabilityProcess && looks%int(SyncInterval/lookEvery) == 0 {
			s.flush.all()
		}
		ns := s.current()
		if ns == nil {
			return // closed while there was no server
		}
		s.keepFree(ns)
		if err := s.spares.check(); err != nil || looks%int(probeEvery/lookEvery) == 0 {
			s.probeSubmit(err, looks%int(markEvery/lookEvery) == 0)
		}
	}
}

// keepMeta copies the descriptions of streams and consumers, such as which queues are
// paused. A failure leaves the previous copies.
func (s *Server) keepMeta() {
	for _, stream := range s.flush.streams() {
		_ = disk.KeepMeta(s.o.Dir, stream)
	}
}

// giveUp stops the embedded server, because nothing that it acknowledges would be
// stored.
func (s *Server) giveUp() {
	s.mark(true) // so that the next start knows, even if a crash follows
	err := &StoreError{s.o.Dir, ErrVanished}
	s.setErr(err)
	s.setDown(err)
	s.o.Log.Error("embedded: " + err.Err.Error())
	if ns := s.swap(nil); ns != nil {
		halt(ns)
	}
}

// Once new jobs are refused, accepted jobs may use MinFree, all but its floorPart, to run and
// end. Below that, the server rejects all writes, because one that fails would stop it.
const floorPart = 4

// keepFree refuses new jobs while the disk has less than MinFree, and rejects all writes
// while it has less than a part of that. It uses the account's limit, which can change
// while the server runs. With 0 bytes, each write is rejected; acknowledgements, which
// free space, still work.
//
// The server counts a limit of 0 as one byte, and rejects it if none is left beyond
// what its streams reserve: hence the 1 in JetStreamMaxStore.
func (s *Server) keepFree(ns *server.Server) {
	free, known := freeOn(s.o.Dir)
	if !known {
		return
	}
	low, least := isBelow(free, s.o.MinFree, s.low), s.o.MinFree/floorPart
	if low != s.low {
		s.low = low
		if low {
			s.setLow(s.lowError(free))
			s.o.Log.Error("embedded: disk full; new jobs fail, accepted jobs still run", "free", free, "min_free", s.o.MinFree)
		} else {
			s.setLow(nil)
			s.o.Log.Warn("embedded: disk has room again", "free", free)
		}
	}
	full := isBelow(free, least, s.full)
	if full == s.full {
		return
	}
	limits := server.JetStreamAccountLimits{
		MaxMemory: -1, MaxStore: -1, MaxStreams: -1, MaxConsumers: -1,
		MaxAckPending: -1, MemoryMaxStreamBytes: -1, StoreMaxStreamBytes: -1,
	}
	if full {
		limits.MaxStore = 0
	}
	if err := ns.GlobalAccount().UpdateJetStreamLimits(map[string]server.JetStreamAccountLimits{"": limits}); err != nil {
		s.o.Log.Error("embedded: limiting the store failed", "error", err)
		return
	}
	if full {
		s.setErr(&StoreError{s.o.Dir, fmt.Errorf("%w: %d bytes are free; below %d, nothing is written, and no job ends", errDiskFull, free, least)})
		s.o.Log.Error("embedded: disk full; all writes fail", "free", free, "least", least)
	} else {
		s.setErr(nil)
		s.o.Log.Warn("embedded: accepted jobs run again", "free", free)
	}
	s.full = full
}

func (s *Server) lowError(free int64) error {
	return &StoreError{s.o.Dir, fmt.Errorf("%w: %d bytes are free; below %d, no new jobs are accepted, and those accepted still run", errDiskFull, free, s.o.MinFree)}
}

// room returns how many bytes can be stored before new jobs are refused, or why they are. It
// reads what is free now: at the rate of a fast disk, much more than a part of MinFree can be
// written until the next look of watch.
func (s *Server) room() (left int64, why error) {
	if err := s.Err(); err != nil {
		return 0, err
	}
	free, known := freeOn(s.o.Dir)
	switch {
	case !known || s.o.MinFree < 0:
		return math.MaxInt64, nil
	case free < s.o.MinFree:
		return 0, s.lowError(free)
	}
	return free - s.o.MinFree, nil
}

// isBelow adds hysteresis: no flapping at the threshold.
func isBelow(free, least int64, was bool) bool {
	return free < least || was && free < least+least/8
}

// probeEvery is how often the files are probed for what a submit needs.
const probeEvery = time.Second

// probeSubmit refuses new jobs while one of the files and folders that a submit needs
// cannot be used: the last block, and folders in which files are created. It writes no
// record. With queues set, it also probes the folders of the queues. err is what a cheaper
// probe has found.
func (s *Server) probeSubmit(err error, queues bool) {
	if err == nil {
		err = s.submittable(queues || s.probed != nil)
	}
	switch {
	case err == nil && s.probed != nil:
		s.o.Log.Warn("embedded: the files of the jobs can be written to again")
	case err != nil && (s.probed == nil || s.probed.Error() != err.Error()):
		s.o.Log.Error("embedded: a file of the jobs cannot be written to; new jobs fail", "error", err)
	}
	s.probed = err
	if err == nil {
		s.setProbed(nil)
		return
	}
	s.setProbed(&StoreError{s.o.Dir, err})
}

// submittable returns why a submit would fail, or should.
func (s *Server) submittable(queues bool) error {
	folders := []string{s.o.Dir, filepath.Join(s.o.Dir, disk.Folder)}
	for _, stream := range s.flush.streams() {
		dir := filepath.Join(s.flush.dir, stream)
		folders = append(folders, dir, blockFolder(dir), filepath.Join(dir, "obs"))
		if last := s.flush.lastOf(stream); last != "" {
			if err := ignoreGone(writable.File(last)); err != nil {
				return err
			}
		}
		if err := ignoreGone(writable.File(filepath.Join(s.o.Dir, disk.Folder, stream))); err != nil {
			return err
		}
		if entries, err := os.ReadDir(filepath.Join(dir, "obs")); queues && err == nil {
			for _, e := range entries {
				folders = append(folders, filepath.Join(dir, "obs", e.Name()))
			}
		}
	}
	for _, folder := range folders {
		if err := ignoreGone(writable.Folder(folder)); err != nil {
			return err
		}
	}
	return nil
}

// revive replaces a server after a failed write, because it would reject all later
// writes. There is no server until the disk accepts writes again. It reports false if a
// server can only be started after an operator has done something.
func (s *Server) revive(tick <-chan time.Time) bool {
	s.spares.release() // a descriptor may be what was missing
	s.o.Log.Error("embedded: a write has failed; restarting the server")
	s.setErr(&StoreError{s.o.Dir, errWrite})
	if ns := s.swap(nil); ns != nil {
		halt(ns)
	}
	var last string
	for {
		ns, err := s.tryStart()
		if err == nil {
			s.full = false // a new server has no limit
			s.setErr(nil)
			s.setDown(nil)
			s.swap(ns)
			s.o.Log.Warn("embedded: the server is running again")
			return true
		}
		if err.Error() != last {
			last = err.Error()
			s.setErr(err)
			s.o.Log.Error("embedded: starting the server again failed", "error", err)
		}
		s.setDown(err)
		if isFinal(err) {
			return false
		}
		select {
		case <-s.stop:
			return true
		case <-tick:
		}
	}
}

// isFinal reports whether a start that failed with err would fail again.
func isFinal(err error) bool {
	_, damaged := errors.AsType[*DamageError](err)
	_, lost := errors.AsType[*RecoveryError](err)
	return damaged || lost || errors.Is(err, ErrNewer)
}

var (
	errDiskFull = errors.New("the disk is full")
	errWrite    = errors.New("a write has failed; the server is being restarted")
)

// tryStart first does what takes little time. A recovery also writes.
func (s *Server) tryStart() (*server.Server, error) {
	if err := probe(s.lock); err != nil {
		return nil, &StoreError{s.o.Dir, err}
	}
	if left, _ := keep.Left(s.o.Dir); !left {
		if err := s.usable(); err != nil {
			return nil, err
		}
	}
	return s.start()
}
