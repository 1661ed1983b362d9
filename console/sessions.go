package console

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"sync"
	"time"
)

const (
	// SessionLifetime is when a session ends, if it has not been ended before.
	SessionLifetime = 12 * time.Hour
	// MaxSessions is how many there are at once. The oldest gives way to a new one.
	MaxSessions = 256
)

// Sessions are who has logged in, and how often it was tried. They are in memory
// only, and of a session there is no more than a hash of what its cookie says.
// Make them with NewSessions; they are safe for concurrent use, and need no Close.
type Sessions struct {
	mu    sync.Mutex
	turns uint64                         // guarded by mu; of the Accesses that share this
	last  uint64                         // guarded by mu; the latest turn that has answered a request
	token [sha256.Size]byte              // guarded by mu; hash of the token that it has
	open  map[[sha256.Size]byte]*session // guarded by mu; by the hash of their cookie
	said  time.Time                      // guarded by mu; when too many tries were logged
	tries tries
}

// A session ends as its context does, and is open until then.
type session struct {
	context.Context
	cancel context.CancelFunc
	begun  time.Time
}

// NewSessions returns some without any.
func NewSessions() *Sessions {
	return &Sessions{open: map[[sha256.Size]byte]*session{}}
}

// turn returns the number of a further Access.
func (s *Sessions) turn() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turns++
	return s.turns
}

// isOursLocked reports whether sessions are those of the Access of this turn and
// token. The latest that is in use decides: one that was made for a configuration
// that never came into force, or that still ends its requests, ends no session.
// s.mu must be held.
func (s *Sessions) isOursLocked(turn uint64, token [sha256.Size]byte) bool {
	if turn >= s.last {
		s.last = turn
		if s.token != token {
			s.token = token
			for id, old := range s.open {
				s.endLocked(id, old)
			}
		}
	}
	return s.token == token
}

// begin opens a session and returns what its cookie is to say.
func (s *Sessions) begin(turn uint64, token [sha256.Size]byte) (cookie string, ok bool) {
	var id [32]byte
	_, _ = rand.Read(id[:]) // never fails
	cookie = base64.RawURLEncoding.EncodeToString(id[:])
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isOursLocked(turn, token) {
		return "", false
	}
	s.sweepLocked()
	ctx, cancel := context.WithDeadline(context.Background(), now.Add(SessionLifetime))
	s.open[sha256.Sum256([]byte(cookie))] = &session{ctx, cancel, now}
	return cookie, true
}

// find returns the session that a cookie is of, or nil.
func (s *Sessions) find(turn uint64, token [sha256.Size]byte, cookie string) *session {
	id := sha256.Sum256([]byte(cookie)) // so that the time of the lookup tells nothing
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isOursLocked(turn, token) {
		return nil
	}
	found := s.open[id]
	if found != nil && found.Err() != nil {
		s.endLocked(id, found)
		return nil
	}
	return found
}

// end ends the session that a cookie is of, if there is one.
func (s *Sessions) end(cookie string) {
	id := sha256.Sum256([]byte(cookie))
	s.mu.Lock()
	defer s.mu.Unlock()
	if found := s.open[id]; found != nil {
		s.endLocked(id, found)
	}
}

// endLocked ends a session. s.mu must be held.
func (s *Sessions) endLocked(id [sha256.Size]byte, found *session) {
	found.cancel()
	delete(s.open, id)
}

// sweepLocked removes those that are over, and makes room for one more. s.mu must
// be held.
func (s *Sessions) sweepLocked() {
	var oldest [sha256.Size]byte
	for id, one := range s.open {
		if one.Err() != nil {
			s.endLocked(id, one)
		} else if first := s.open[oldest]; first == nil || one.begun.Before(first.begun) {
			oldest = id
		}
	}
	if len(s.open) >= MaxSessions {
		s.endLocked(oldest, s.open[oldest])
	}
}

// try lets right compare the token that r has sent. After too many wrong ones from
// there it returns how long to wait. A long token is compared all the same: nobody
// finds one by trying, however often, and who has it may share an address with
// somebody who sends wrong ones. A short one is not, right or wrong.
func (s *Sessions) try(r *http.Request, long bool, right func() bool) (wait time.Duration, ok bool) {
	if long && right() {
		return 0, true
	}
	from := client(r)
	if wait := s.tries.take(from, time.Now()); wait > 0 {
		return wait, false
	}
	if long || !right() {
		return 0, false
	}
	s.tries.giveBack(from)
	return 0, true
}

// says reports whether to log too many tries: once in a while, or an attacker could
// fill the log.
func (s *Sessions) says(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.said) < triesEach {
		return false
	}
	s.said = now
	return true
}
