package console

import (
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/weir-go/weir/plain"
)

// MaxStreams is how many streams of events are open at once. Further ones are
// answered with 503.
const MaxStreams = 32

const (
	// retryStream is when a browser comes back whose stream has ended.
	retryStream = 2 * time.Second
	// writeTimeout is for how long a browser may take nothing of what is sent.
	writeTimeout = 10 * time.Second
	// heartbeat is for how long nothing is sent at most, so that proxies between
	// keep the connection.
	heartbeat = 15 * time.Second
)

// event writes v as a server-sent event. JSON has no line breaks in it.
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

// greetings are the hello events of a sample, which all who come before the next
// are sent.
type greetings struct {
	mu    sync.Mutex      // held while one is made, so that it is made once
	seq   uint64          // guarded by mu; the sample
	ready map[bool][]byte // guarded by mu; by whether it is for a login
}

// subscribe returns a hello and what follows it. The status says why there is
// neither.
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
	defer func() { // a Source that panics must not cost a stream for good
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

// events answers with a stream of them, which ends with the request or with the
// Console.
func (c *Console) events(w http.ResponseWriter, r *http.Request) {
	l, hello, status := c.subscribe(byLogin(r))
	if l == nil {
		w.Header().Set("Retry-After", strconv.Itoa(int(retryStream.Seconds())))
		fail(w, status, "no more than %d streams of events, and none once the console is closed", MaxStreams)
		return
	}
	defer c.unsubscribe(l)
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // for nginx, which would keep the events to itself
	first := append([]byte("retry: "+strconv.FormatInt(retryStream.Milliseconds(), 10)+"\n\n"), hello...)
	c.stream(stream{http.NewResponseController(w), w}, r, l, first)
}

// stream sends first, and then what l hears.
func (c *Console) stream(to stream, r *http.Request, l *sub, first []byte) {
	// The listener's own time limits are for requests that end.
	_ = to.rc.SetReadDeadline(time.Time{}) // without one, as in tests, nothing is to be lifted
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
			_ = to.rc.SetWriteDeadline(time.Time{}) // the next request on this connection has its own
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

// A stream is who is sent events.
type stream struct {
	rc *http.ResponseController
	w  http.ResponseWriter
}

// send sends b at once, or fails after writeTimeout.
func (s stream) send(b []byte) error {
	_ = s.rc.SetWriteDeadline(time.Now().Add(writeTimeout)) // a writer that has none blocks nobody but itself
	if _, err := s.w.Write(b); err != nil {
		return err
	}
	return s.rc.Flush()
}
