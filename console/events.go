package console

import (
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/weir-go/weir/plain"
)

// MaxStreams is the maximum number of open event streams. Further ones get 503.
const MaxStreams = 32

const (
	// retryStream is the delay after which a browser reconnects when its stream has
	// ended.
	retryStream = 2 * time.Second
	// writeTimeout is how long a write to a browser can block.
	writeTimeout = 10 * time.Second
	// heartbeat is the longest time without an event or a comment, so that proxies
	// keep the connection open.
	heartbeat = 15 * time.Second
)

// event encodes v as a server-sent event. The JSON has no line breaks.
func event(name string, v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	b = plain.JSON(b)
	out := make([]byte, 0, len(b)+len(name)+20)
	out = append(out, "event: "+name+"\ndata: "...)
	out = append(out, b...)
	return append(out, "\n\n"...), nil
}

// greetings has the hello events of a sample. All clients that connect before the
// next sample get the same ones.
type greetings struct {
	mu    sync.Mutex      // held while one is built, so that it is built once
	seq   uint64          // guarded by mu; the number of the sample
	ready map[bool][]byte // guarded by mu; by whether it is for a logged-in client
}

// subscribe returns a subscription and its hello event, or the status of the failure.
func (c *Console) subscribe(login bool) (l *sub, hello []byte, status int) {
	c.hello.mu.Lock()
	defer c.hello.mu.Unlock()
	h := Hello{Title: c.o.Title, Interval: c.o.Interval, History: c.o.History}
	s := c.sampler
	s.mu.Lock()
	if s.closed || len(s.subs) >= MaxStreams {
		s.mu.Unlock()
		return nil, nil, http.StatusServiceUnavailable
	}
	l = &sub{ticks: make(chan []byte, backlog), after: s.seq}
	s.subs[l] = true
	if c.hello.seq != s.seq || c.hello.ready == nil {
		c.hello.seq, c.hello.ready = s.seq, map[bool][]byte{}
	}
	hello = c.hello.ready[login]
	if hello == nil {
		s.historyLocked(&h)
	}
	s.mu.Unlock()
	if hello != nil {
		return l, hello, http.StatusOK
	}
	made := false
	defer func() { // if a Source panics, the stream must not stay counted
		if !made {
			c.unsubscribe(l)
		}
	}()
	h.Features = c.features(h.Snapshot, login)
	hello, err := event("hello", h)
	if err != nil {
		return nil, nil, http.StatusInternalServerError
	}
	made = true
	c.hello.ready[login] = hello
	return l, hello, http.StatusOK
}

func (c *Console) unsubscribe(l *sub) {
	c.sampler.mu.Lock()
	defer c.sampler.mu.Unlock()
	delete(c.sampler.subs, l)
}

// events responds with an event stream, which ends with the request or with the
// Console.
func (c *Console) events(w http.ResponseWriter, r *http.Request) {
	l, hello, status := c.subscribe(byLogin(r))
	if l == nil {
		w.Header().Set("Retry-After", strconv.Itoa(int(retryStream.Seconds())))
		fail(w, status, "at most %d event streams can be open, and none after the console is closed", MaxStreams)
		return
	}
	defer c.unsubscribe(l)
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // nginx would otherwise buffer the events
	first := append([]byte("retry: "+strconv.FormatInt(retryStream.Milliseconds(), 10)+"\n\n"), hello...)
	c.stream(stream{http.NewResponseController(w), w}, r, l, first)
}

// stream sends first, and then the events of l.
func (c *Console) stream(to stream, r *http.Request, l *sub, first []byte) {
	// The listener's time limits are meant for requests that end.
	_ = to.rc.SetReadDeadline(time.Time{}) // fails if there are no deadlines to lift, as in tests
	if to.send(first) != nil {
		return
	}
	beat := time.NewTimer(heartbeat)
	defer beat.Stop()
	for {
		var b []byte
		select {
		case <-r.Context().Done():
			return
		case <-c.done:
			_ = to.rc.SetWriteDeadline(time.Time{}) // the next request on this connection sets its own
			return
		case b = <-l.ticks:
		case <-beat.C:
			b = []byte(":\n\n") // a comment
		}
		if to.send(b) != nil {
			return
		}
		beat.Reset(heartbeat)
	}
}

// A stream writes events to a client.
type stream struct {
	rc *http.ResponseController
	w  http.ResponseWriter
}

// send sends b at once, or fails after writeTimeout.
func (s stream) send(b []byte) error {
	_ = s.rc.SetWriteDeadline(time.Now().Add(writeTimeout)) // a writer without deadlines blocks only its own stream
	if _, err := s.w.Write(b); err != nil {
		return err
	}
	return s.rc.Flush()
}
