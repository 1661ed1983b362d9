package forward

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

var past = time.Unix(1, 0)

const (
	// continueWait is how long a body waits for the server's 100 before the
	// client gets a 100 anyway: a server need not send one.
	continueWait = time.Second
	// drainWait bounds the time for which an unwanted body is read.
	drainWait = time.Second
)

var errTrailer = errors.New("forward: a trailer of the request is not a valid field")

var errUploadOver = errors.New("forward: the client's body is no longer needed")

// An upload is the client's body on its way to the server. net/http's transport
// reads it on a separate goroutine, possibly even after the response is complete.
// By then the client's connection must be left alone; leave and drain take care
// of that.
type upload struct {
	x       *relay
	src     io.ReadCloser
	trailer http.Header // filled in at the end

	opened chan struct{} // closed when the client may get a 100; nil if it may at once
	gone   chan struct{} // closed by leave
	once   sync.Once     // closes opened

	mu      sync.Mutex
	idle    sync.Cond // on mu: reading has become false
	reading bool      // guarded by mu
	begun   bool      // guarded by mu: src was read
	held    bool      // guarded by mu: a response came before src was read
	over    bool      // guarded by mu
	eof     bool      // guarded by mu
	cut     bool      // guarded by mu: nothing more is read
	poison  bool      // guarded by mu: a Read was interrupted
	err     error     // guarded by mu: how src broke, unless this side cut it off
}

func newUpload(x *relay, trailer http.Header, waits bool) *upload {
	u := &upload{x: x, src: x.r.Body, trailer: trailer, gone: make(chan struct{})}
	u.idle.L = &u.mu
	if waits {
		u.opened = make(chan struct{})
	}
	return u
}

// open is called when the server wants the body.
func (u *upload) open() {
	if u.opened != nil {
		u.once.Do(func() { close(u.opened) })
	}
}

// hold is called when the response has arrived. A client that still waits for a
// 100 no longer gets one.
func (u *upload) hold() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.opened != nil && !u.begun {
		u.held = true
	}
}

func (u *upload) Read(p []byte) (int, error) {
	if !u.wait() {
		return 0, errUploadOver
	}
	u.x.watch.begin()
	n, err := u.src.Read(p)
	u.x.watch.end()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.reading = false
	u.idle.Broadcast()
	switch {
	case err == io.EOF && !sendable(u.x.r.Trailer):
		// The body is complete, but its trailers cannot be forwarded.
		u.eof, u.err, err = true, errTrailer, errTrailer
	case err == io.EOF:
		u.eof = true
		for name, values := range u.x.r.Trailer {
			if u.x.f.sendsTrailer(name) && len(values) > 0 {
				u.trailer[name] = values
			}
		}
	case err != nil && u.err == nil && !(u.cut && isTimeout(err)):
		u.err = err
	}
	return n, err
}

// wait waits until src can be read, and reports whether it may be.
func (u *upload) wait() bool {
	if u.opened != nil {
		timer := time.NewTimer(continueWait)
		defer timer.Stop()
		select {
		case <-u.opened:
		case <-timer.C:
			u.open()
		case <-u.gone:
		}
	}
	u.mu.Lock()
	for u.held && !u.over {
		u.mu.Unlock()
		<-u.gone
		u.mu.Lock()
	}
	defer u.mu.Unlock()
	if u.over || u.cut {
		return false
	}
	u.reading, u.begun = true, true
	return true
}

// Close is called by the transport when it has finished with the body, or gives
// up.
func (u *upload) Close() error {
	u.x.interrupt()
	return nil
}

// interrupt makes the current Read, or the next one, return.
func (u *upload) interrupt() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.over || u.eof {
		return
	}
	u.cut = true
	u.open()
	if u.reading {
		u.poison = true
		u.x.rc.SetReadDeadline(past)
	}
}

// failure returns how the client's body broke, or nil.
//
// On HTTP/1, net/http ends the request's context when the connection cannot be
// read. That happens before the Read returns the reason, so failure waits for
// that Read.
func (u *upload) failure() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.reading && u.x.r.ProtoMajor == 1 && u.x.r.Context().Err() != nil {
		u.cut, u.poison = true, true
		if u.x.rc.SetReadDeadline(past) == nil { // in case the context ended for another reason
			for u.reading {
				u.idle.Wait()
			}
		}
	}
	return u.err
}

// end stops the transport from reading src, and waits for a Read in progress. It
// reports whether src is free.
func (u *upload) end(deadline time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.over {
		u.over = true
		close(u.gone)
	}
	if u.eof {
		return true
	}
	u.cut = true
	if err := u.x.rc.SetReadDeadline(deadline); err != nil {
		return !u.reading // the Read cannot be interrupted
	}
	for u.reading {
		u.idle.Wait()
	}
	return true
}

// leave releases src at once.
func (u *upload) leave() { u.end(past) }

// done reports whether the complete body was read, and the connection was left in
// a state that cannot harm the next request.
func (u *upload) done() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	// net/http reads on after a body, to notice if the client leaves. If the
	// interruption hit that read, it would assume that the client has left.
	return u.eof && !u.poison
}

// drain takes src away from the transport, reads at most limit bytes of the rest,
// and reports whether that was all. If not, nothing that follows on the
// connection may be treated as a request. A negative limit reads nothing.
func (u *upload) drain(limit int64) bool {
	if u.x.r.ProtoMajor != 1 {
		u.end(past)
		return true // the stream is reset, and its connection continues
	}
	u.mu.Lock()
	wanted := limit >= 0 && !u.eof && u.err == nil && (u.begun || u.opened == nil)
	u.mu.Unlock()
	if !wanted {
		u.end(past)
		return false
	}
	if !u.end(time.Now().Add(drainWait)) {
		return false
	}
	if !u.done() {
		// One byte more than the limit shows whether the body ends there.
		if _, err := io.CopyN(io.Discard, u.src, limit+1); err != io.EOF {
			u.x.rc.SetReadDeadline(past) // otherwise net/http would read on
			return false
		}
	}
	u.x.rc.SetReadDeadline(time.Time{})
	return true
}
