package disk

import (
	"fmt"
	"time"
)

// An other is a message that belongs to no job, such as a lock.
type other struct {
	seq     uint64
	expires time.Time // zero: never
}

// takeOther adds such a message.
func (s *stored) takeOther(r record) {
	if r.erased {
		return
	}
	if old, there := s.others[r.subject]; !there || old.seq < r.seq {
		s.others[r.subject] = other{r.seq, r.expires()}
	}
}

// A Has is what a server that has just started says about a stream.
type Has struct {
	Messages uint64
	Last     uint64 // sequence
}

// Lacks compares a server that was started on the prepared files with these files. It
// returns what the server has lost, or nil. A stream keeps one message per subject. One
// may be missing if it was removed or has expired by now. It may be there although it was
// removed: where the latest message of a subject was, the one before it can show again.
func (p *Prepared) Lacks(has map[string]Has, now time.Time) error {
	for _, s := range p.stored {
		least, most := s.expect(now)
		got, there := has[s.name]
		switch {
		case !there && least > 0:
			return fmt.Errorf("stream %s was not recovered; its files have %d messages", s.name, least)
		case !there:
		case got.Messages < least || got.Messages > most:
			return fmt.Errorf("stream %s was recovered with %d messages; its files have %s", s.name, got.Messages, between(least, most))
		case got.Last < s.last && least > 0:
			return fmt.Errorf("stream %s was recovered up to sequence %d; its files reach %d", s.name, got.Last, s.last)
		}
	}
	return nil
}

func between(least, most uint64) string {
	if least == most {
		return fmt.Sprint(least)
	}
	return fmt.Sprintf("%d to %d", least, most)
}

// expect returns how many messages a server finds in the files.
func (s *stored) expect(now time.Time) (least, most uint64) {
	most = uint64(len(s.messages) + s.removed)
	for _, m := range s.messages {
		if !m.gone(now) {
			least++
		}
	}
	for _, o := range s.others {
		most++
		if !s.tombs[o.seq] && (o.expires.IsZero() || o.expires.After(now.Add(time.Second))) {
			least++
		}
	}
	return least, most
}
