// Package mail has the test suite for services that send mails from a queue.
package mail

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
)

// A Mail is sent once for each order.
type Mail struct {
	Order string `json:"order" river:"unique"`
	To    string `json:"to"`
}

// ErrNoAddress is a permanent error: a retry cannot succeed.
var ErrNoAddress = errors.New("mail: no such address")

// A Sender queues a mail, which is sent after delay at the earliest.
type Sender interface {
	Enqueue(ctx context.Context, m Mail, delay time.Duration) error
}

// patience is how long a test waits. It is long because asynq checks for retries only
// every 5 s.
const patience = time.Minute

// A Server is the slow service. It fails the first attempt of order "retry",
// and mails without an address.
type Server struct {
	mu       sync.Mutex
	attempts map[string]int       // guarded by mu
	sent     map[string]time.Time // guarded by mu
}

// Send sends a mail.
func (s *Server) Send(_ context.Context, m Mail) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.attempts == nil {
		s.attempts, s.sent = map[string]int{}, map[string]time.Time{}
	}
	s.attempts[m.Order]++
	switch {
	case m.To == "":
		return ErrNoAddress
	case m.Order == "retry" && s.attempts[m.Order] == 1:
		return errors.New("mail: the server is busy")
	}
	s.sent[m.Order] = time.Now()
	return nil
}

func (s *Server) of(order string) (attempts int, sent time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.attempts[order], s.sent[order]
}

// Run runs the suite with a service whose worker calls the Server.
func Run(t *testing.T, s *Server, q Sender) {
	began := time.Now()
	enqueue := func(m Mail, delay time.Duration) {
		t.Helper()
		if err := q.Enqueue(t.Context(), m, delay); err != nil {
			t.Errorf("Enqueue(%v) = %v", m, err)
		}
	}
	enqueue(Mail{"retry", "ada@example.org"}, 0)
	enqueue(Mail{"later", "ada@example.org"}, 2*time.Second)
	enqueue(Mail{"permanent", ""}, 0)
	for range 3 {
		enqueue(Mail{"once", "ada@example.org"}, 0)
	}
	for _, order := range []string{"once", "later", "retry"} {
		for end := time.Now().Add(patience); ; <-time.After(20 * time.Millisecond) {
			if _, sent := s.of(order); !sent.IsZero() {
				break
			} else if time.Now().After(end) {
				t.Fatalf("order %s was not sent within %v", order, patience)
			}
		}
	}
	enqueue(Mail{"once", "ada@example.org"}, 0) // a second time, after it was sent
	enqueue(Mail{"last", "ada@example.org"}, 0)
	for sent := (time.Time{}); sent.IsZero(); _, sent = s.of("last") {
		if time.Since(began) > 2*patience {
			t.Fatal("the last order was not sent")
		}
		<-time.After(20 * time.Millisecond)
	}
	for order, want := range map[string]int{"once": 1, "later": 1, "retry": 2, "permanent": 1} {
		if n, _ := s.of(order); n != want {
			t.Errorf("order %s: %d attempts; want %d", order, n, want)
		}
	}
	if _, sent := s.of("later"); sent.Sub(began) < 2*time.Second {
		t.Errorf("the delayed order was sent after %v; want at least 2 s", sent.Sub(began))
	}
}
