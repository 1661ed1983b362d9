package embedded

import (
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/weir-go/weir/jobs"
)

// lookEvery is how often the disk is looked at, and tried again.
const lookEvery = 250 * time.Millisecond

// freeOn is freeBytes, but for tests of a disk that fills.
var freeOn = freeBytes

// watch keeps the server within its disk, until Close.
func (s *Server) watch() {
	defer close(s.watched)
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for looks := 1; ; looks++ {
		select {
		case <-s.stop:
			return
		case <-s.log.broken:
			if !s.vanished() {
				s.revive(ticker.C)
			}
		case <-ticker.C:
		}
		if s.vanished() {
			s.giveUp()
			return
		}
		s.mark(false)
		if s.o.Durability == jobs.DurabilityProcess && looks%int(SyncInterval/lookEvery) == 0 {
			s.flush.all()
		}
		ns := s.current()
		if ns == nil {
			return // closed while there was none
		}
		s.keepFree(ns)
	}
}

// giveUp ends the server within, as what it would acknowledge would be nowhere.
func (s *Server) giveUp() {
	s.mark(true) // so that the next start knows, even after a crash right after the error
	err := &StoreError{s.o.Dir, ErrVanished}
	s.setErr(err)
	s.o.Log.Error("embedded: " + err.Err.Error())
	if ns := s.swap(nil); ns != nil {
		halt(ns)
	}
}

// keepFree lets nothing be stored while the disk has too little room. The
// account's limit is what can be set while the server runs: with 0 bytes each
// write is refused, and acknowledgements, which free some, go on.
//
// The server counts a limit of 0 as one byte more than none, and refuses it
// where nothing is left to reserve: hence the 1 in JetStreamMaxStore.
func (s *Server) keepFree(ns *server.Server) {
	free, known := freeOn(s.o.Dir)
	if !known {
		return
	}
	full := free < s.o.MinFree
	if s.full && free < s.o.MinFree+s.o.MinFree/8 {
		full = true // not to and fro at the edge
	}
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
	err := ns.GlobalAccount().UpdateJetStreamLimits(map[string]server.JetStreamAccountLimits{"": limits})
	switch {
	case err != nil:
		s.o.Log.Error("embedded: limiting the store", "error", err)
		return
	case full:
		s.setErr(&StoreError{s.o.Dir, fmt.Errorf("%w: %d bytes are free, and %d stay free", errDiskFull, free, s.o.MinFree)})
		s.o.Log.Error("embedded: disk full, nothing is accepted", "free", free, "min_free", s.o.MinFree)
	default:
		s.setErr(nil)
		s.o.Log.Warn("embedded: disk has room again", "free", free)
	}
	s.full = full
}

// revive replaces a server of which a write has failed: it would go on to refuse
// all writes. There is none until the disk takes writes again.
func (s *Server) revive(tick <-chan time.Time) {
	s.o.Log.Error("embedded: a write has failed, the server is started again")
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
			s.swap(ns)
			s.o.Log.Warn("embedded: the server runs again")
			return
		}
		if err.Error() != last {
			last = err.Error()
			s.setErr(err)
			s.o.Log.Error("embedded: starting the server again", "error", err)
		}
		select {
		case <-s.stop:
			return
		case <-tick:
		}
	}
}

var (
	errDiskFull = errors.New("the disk is full")
	errWrite    = errors.New("a write has failed; it is tried again")
)

// tryStart does not begin before there is room: recovery writes, too.
func (s *Server) tryStart() (*server.Server, error) {
	if err := probe(s.lock); err != nil {
		return nil, err
	}
	return s.start()
}
