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
	// SessionLifetime is the maximum lifetime of a session.
	SessionLifetime = 12 * time.Hour
	// MaxSessions is the maximum number of sessions of a Sessions. A new one replaces the oldest.
	MaxSessions = 256
)

// Sessions holds the logged-in sessions and the failed logins. They are in memory
// only, and a session is stored as a hash of its cookie. Create it with NewSessions;
// it is safe for concurrent use, and needs no Close.
type Sessions struct {
	mu    sync.Mutex
	turns uint64                         // guarded by mu; number of the Accesses that share this
	last  uint64                         // guarded by mu; the latest turn that has served a request
	token [sha256.Size]byte              // guarded by mu; hash of that Access's token
	open  map[[sha256.Size]byte]*session // guarded by mu; by the hash of the cookie
	said  time.Time                      // guarded by mu; when too many tries were last logged
	tries tries
}

// A session is open until its context ends.
type session struct {
	context.Context
	cancel context.CancelFunc
	begun  time.Time
}

// NewSessions returns empty Sessions.
func NewSessions() *Sessions {
	return &Sessions{open: map[[sha256.Size]byte]*session{}}
}

// turn returns the number of a new Access.
func (s *Sessions) turn() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turns++
	return s.turns
}

// isOursLocked reports whether the sessions belong to the Access with this turn and
// token. The latest Access in use decides. An Access for a configuration that never
// came into effect, or an old one that still finishes its requests, ends no sessions.
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

// begin opens a session and returns the value of its cookie.
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

// find returns the session of a cookie, or nil.
func (s *Sessions) find(turn uint64, token [sha256.Size]byte, cookie string) *session {
	id := sha256.Sum256([]byte(cookie)) // hashed, so that the lookup time reveals nothing
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

// end ends the session of a cookie, if there is one.
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

// sweepLocked removes ended sessions, and makes room for one more. s.mu must be held.
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

// try calls right to compare the token of r. After too many wrong ones from the same
// client it returns how long to wait. A long token is still compared: it cannot be
// guessed, and a client that has it may share its address with one that sends wrong
// ones. A short token is not compared, whether right or wrong.
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

// says reports whether to log too many tries: only now and then, because an attacker
// could otherwise fill the log.
func (s *Sessions) says(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.said) < triesEach {
		return false
	}
	s.said = now
	return true
}
