package slow_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/alarm"
	"github.com/weir-go/weir/internal/slow"
)

// A subject is a Client, with the result of its cut.
type subject struct {
	slow.Client
	alarm        alarm.Alarm
	mu           sync.Mutex
	cut          error
	at           time.Duration
	sends, reads bool
}

func newSubject(t slow.Terms) *subject {
	s := new(subject)
	began := time.Now()
	s.Start(t, &s.alarm, func(err error, sends, reads bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.cut, s.at, s.sends, s.reads = err, time.Since(began), sends, reads
	})
	return s
}

// move has s move n bytes, with a wait of that length.
func (s *subject) move(w slow.Way, n int, wait time.Duration) {
	if w == slow.Down {
		s.Begin(w, n)
	} else {
		s.Begin(w, 0)
	}
	time.Sleep(wait)
	synctest.Wait() // let the timer fire first if it is due at the same instant
	s.End(w, n)
}

var terms = slow.Terms{MinRate: 100, Grace: 10 * time.Second}

func TestH24_AClientBehindItsRateIsCutAfterTheGrace(t *testing.T) {
	tests := []struct {
		name  string
		moves func(s *subject)
		want  error
		at    time.Duration
	}{
		{"nothing sent", func(s *subject) { s.move(slow.Up, 0, time.Minute) }, slow.ErrSending, 10 * time.Second},
		{"one byte every 3 s", func(s *subject) {
			for range 10 {
				s.move(slow.Up, 1, 3*time.Second)
			}
		}, slow.ErrSending, 10*time.Second + 30*time.Millisecond},
		{"just the rate", func(s *subject) {
			for range 1000 {
				s.move(slow.Up, 100, time.Second)
			}
		}, nil, 0},
		{"a tenth below it", func(s *subject) {
			for range 1000 {
				s.move(slow.Up, 90, time.Second)
			}
		}, slow.ErrSending, 91 * time.Second},
		{"fast, and then nothing", func(s *subject) {
			s.move(slow.Up, 1<<20, time.Second)
			s.move(slow.Up, 0, time.Hour)
		}, slow.ErrSending, 31 * time.Second},
		{"a response at the rate, in one piece", func(s *subject) { s.move(slow.Down, 10_000, 100*time.Second) }, nil, 0},
		{"a response that is not taken", func(s *subject) { s.move(slow.Down, 1000, time.Hour) }, slow.ErrReading, 20 * time.Second},
		{"a pause of the origin", func(s *subject) {
			for range 10 {
				s.move(slow.Down, 10, 50*time.Millisecond)
				time.Sleep(time.Hour)
			}
		}, nil, 0},
		{"an endless answer", func(s *subject) {
			s.Endless()
			s.move(slow.Down, 10, time.Hour)
			s.move(slow.Up, 0, time.Hour)
		}, nil, 0},
		{"closed", func(s *subject) {
			s.Begin(slow.Up, 0)
			time.Sleep(9 * time.Second)
			s.Close()
			time.Sleep(time.Hour)
			s.End(slow.Up, 0)
		}, nil, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSubject(terms)
				defer s.Close()
				tt.moves(s)
				if s.cut != tt.want || tt.want != nil && s.at.Round(time.Second) != tt.at.Round(time.Second) {
					t.Errorf("cut off with %v after %v; want %v after %v", s.cut, s.at, tt.want, tt.at)
				}
				if s.Err() != s.cut || tt.want != nil && !errors.Is(s.Err(), slow.ErrSlow) {
					t.Errorf("Err = %v; want %v, which is ErrSlow", s.Err(), s.cut)
				}
			})
		})
	}
}

func TestH24_NoMinimumRateAsksForNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSubject(slow.Terms{MinRate: -1, Grace: time.Second})
		s.move(slow.Up, 0, time.Hour)
		s.Close()
		if s.cut != nil {
			t.Errorf("cut off with %v", s.cut)
		}
	})
}

// A limiter has 10 permits, all in use, and the given number of queued callers.
type limiter struct{ queued atomic.Int64 }

func (l *limiter) gauge() (permits, inUse, queued int) { return 10, 10, int(l.queued.Load()) }

// crowd returns n clients that hold permits of l. They started to wait one after
// another, 100 ms apart.
func crowd(l *limiter, share float64, n int) (*slow.Crowd, []*subject) {
	c := slow.NewCrowd(l.gauge, share)
	var all []*subject
	for range n {
		s := newSubject(slow.Terms{})
		s.Hold([]*slow.Crowd{c})
		s.Begin(slow.Up, 0)
		all = append(all, s)
		time.Sleep(100 * time.Millisecond)
	}
	return c, all
}

func cuts(all []*subject) (who []int) {
	for i, s := range all {
		s.mu.Lock()
		cut := s.cut
		s.mu.Unlock()
		if cut != nil {
			who = append(who, i)
		}
	}
	return who
}

func closeAll(all []*subject) {
	for _, s := range all {
		s.Close()
		s.End(slow.Up, 0)
	}
}

func TestH24_BeyondTheShareTheSlowestAreCutWhileOthersQueue(t *testing.T) {
	tests := []struct {
		name    string
		share   float64
		blocked int
		queued  int
		want    int
	}{
		{"nobody is queued", 0.5, 10, 0, 0},
		{"within the share", 0.5, 5, 3, 0},
		{"as many as are queued", 0.5, 10, 2, 2},
		{"down to the share", 0.5, 10, 100, 5},
		{"no bound", 1, 10, 100, 0},
		{"one is always let be", 0.01, 10, 100, 9},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := new(limiter)
				c, all := crowd(l, tt.share, tt.blocked)
				if tt.queued > 0 {
					l.queued.Store(int64(tt.queued - 1)) // plus the new caller
					c.Press()
				}
				l.queued.Store(int64(tt.queued))
				synctest.Wait()
				who := cuts(all)
				if len(who) != tt.want {
					t.Fatalf("cut %v; want %d", who, tt.want)
				}
				for i, w := range who {
					if w != i {
						t.Errorf("cut off %v; want those that have waited longest", who)
						break
					}
				}
				l.queued.Store(0)
				closeAll(all)
			})
		})
	}
}

func TestH24_ClientsThatHaveJustBegunAreSparedForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := new(limiter)
		l.queued.Store(3)
		c := slow.NewCrowd(l.gauge, 0.5)
		var all []*subject
		for range 10 {
			s := newSubject(slow.Terms{})
			s.Hold([]*slow.Crowd{c})
			s.Begin(slow.Down, 100)
			all = append(all, s)
		}
		synctest.Wait()
		if who := cuts(all); len(who) > 0 {
			t.Errorf("cut off %v at once", who)
		}
		time.Sleep(20 * time.Millisecond)
		if who := cuts(all); len(who) != 3 {
			t.Errorf("cut off %v a moment later; want three", who)
		}
		l.queued.Store(0)
		for _, s := range all {
			s.Close()
		}
	})
}

func TestH24_FastClientsAreNotCutForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := new(limiter)
		l.queued.Store(10)
		c := slow.NewCrowd(l.gauge, 0.1)
		s := newSubject(slow.Terms{})
		s.Hold([]*slow.Crowd{c})
		stalled := newSubject(slow.Terms{})
		stalled.Hold([]*slow.Crowd{c})
		stalled.Begin(slow.Up, 0)
		time.Sleep(time.Second)
		s.move(slow.Up, 32<<10, 10*time.Millisecond) // now it is known to be fast
		stalled.Leave()
		for range 100 {
			s.move(slow.Up, 32<<10, 100*time.Millisecond)
		}
		if s.cut != nil || stalled.cut == nil {
			t.Errorf("the fast client was cut off with %v, the other with %v", s.cut, stalled.cut)
		}
		l.queued.Store(0)
		s.Close()
		stalled.Close()
	})
}

// TestH24_WhatASocketTookAtOnceIsNotASpeed: a response of 50 MB that the client
// does not read first fills a buffer of several megabytes.
func TestH24_WhatASocketTookAtOnceIsNotASpeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := new(limiter)
		c, all := crowd(l, 0.5, 0)
		for range 10 {
			s := newSubject(slow.Terms{})
			s.Hold([]*slow.Crowd{c})
			for range 100 {
				s.move(slow.Down, 32<<10, 0)
			}
			s.Begin(slow.Down, 32<<10)
			all = append(all, s)
		}
		l.queued.Store(2)
		c.Press()
		time.Sleep(400 * time.Millisecond)
		if who := cuts(all); len(who) < 2 {
			t.Errorf("cut off %v; want two", who)
		}
		l.queued.Store(0)
		for _, s := range all {
			s.Close()
		}
	})
}

func TestH24_WhoHasGivenItsPermitBackIsNotCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := new(limiter)
		c, all := crowd(l, 0.5, 10)
		for _, s := range all {
			s.Leave()
		}
		l.queued.Store(5)
		c.Press()
		time.Sleep(time.Second)
		if who := cuts(all); len(who) > 0 || c.Blocked() != 0 {
			t.Errorf("cut off %v, %d blocked; want none", who, c.Blocked())
		}
		closeAll(all)
		if c.Blocked() != 0 {
			t.Errorf("%d blocked; want none", c.Blocked())
		}
	})
}
