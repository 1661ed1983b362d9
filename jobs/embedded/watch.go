package embedded

import (
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/embedded/internal/disk"
)

// lookEvery is how often the disk is checked and, after a failure, retried.
const lookEvery = 250 * time.Millisecond

// freeOn is freeBytes; tests replace it to simulate a full disk.
var freeOn = freeBytes

// watch keeps the server within the limits of its disk, until Close.
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
	}
}

// keepMeta copies the descriptions of streams and consumers, such as which queues are
// paused. A failure leaves the previous copies.
func (s *Server) keepMeta() {
	for _, stream := range s.flush.streams() {
		_ = disk.KeepMeta(s.o.Dir, stream)
	}
}

// giveUp stops the server within, because nothing that it acknowledges would be
// stored.
func (s *Server) giveUp() {
	s.mark(true) // so that the next start knows, even if a crash follows
	err := &StoreError{s.o.Dir, ErrVanished}
	s.setErr(err)
	s.o.Log.Error("embedded: " + err.Err.Error())
	if ns := s.swap(nil); ns != nil {
		halt(ns)
	}
}

// keepFree rejects writes while the disk has too little room. It uses the account's
// limit, which can change while the server runs. With 0 bytes, each write is
// rejected; acknowledgements, which free space, still work.
//
// The server counts a limit of 0 as one byte, and rejects it if none is left beyond
// what its streams reserve: hence the 1 in JetStreamMaxStore.
func (s *Server) keepFree(ns *server.Server) {
	free, known := freeOn(s.o.Dir)
	if !known {
		return
	}
	full := free < s.o.MinFree
	if s.full && free < s.o.MinFree+s.o.MinFree/8 {
		full = true // hysteresis: no flapping at the threshold
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
		s.setErr(&StoreError{s.o.Dir, fmt.Errorf("%w: %d bytes are free; at least %d must stay free", errDiskFull, free, s.o.MinFree)})
		s.o.Log.Error("embedded: disk full, nothing is accepted", "free", free, "min_free", s.o.MinFree)
	default:
		s.setErr(nil)
		s.o.Log.Warn("embedded: disk has room again", "free", free)
	}
	s.full = full
}

// revive replaces a server after a failed write, because it would reject all later
// writes. There is no server until the disk accepts writes again.
func (s *Server) revive(tick <-chan time.Time) {
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
			s.swap(ns)
			s.o.Log.Warn("embedded: the server is running again")
			return
		}
		if err.Error() != last {
			last = err.Error()
			s.setErr(err)
			s.o.Log.Error("embedded: starting the server again failed", "error", err)
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
	errWrite    = errors.New("a write has failed; the server is being restarted")
)

// tryStart waits for room first, because recovery writes, too.
func (s *Server) tryStart() (*server.Server, error) {
	if err := probe(s.lock); err != nil {
		return nil, err
	}
	return s.start()
}
