package upstream

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
)

// A held is the body of a request. A call that failed to reach a server does not close it,
// so that it can be sent to the next server. A nil held stands for a request without a
// body.
type held struct {
	body io.ReadCloser

	mu       sync.Mutex
	read     bool  // guarded by mu
	whole    bool  // guarded by mu: read to its end
	closed   bool  // guarded by mu
	released bool  // guarded by mu
	next     *held // guarded by mu: the copy that was sent after body
}

// hold wraps the body of r.
func hold(r *http.Request) *held {
	if bodyless(r) {
		return nil
	}
	b := &held{body: r.Body}
	r.Body = b
	if get := r.GetBody; get != nil {
		r.GetBody = func() (io.ReadCloser, error) {
			body, err := get()
			if err != nil {
				return nil, err
			}
			next := &held{body: body, released: true}
			b.mu.Lock()
			defer b.mu.Unlock()
			b.next = next
			return next, nil
		}
	}
	return b
}

func (b *held) Read(p []byte) (int, error) {
	b.mu.Lock()
	b.read = true
	b.mu.Unlock()
	n, err := b.body.Read(p)
	if err == io.EOF {
		b.mu.Lock()
		b.whole = true
		b.mu.Unlock()
	}
	return n, err
}

// ended reports whether all of the body has been read.
func (b *held) ended() bool {
	b.mu.Lock()
	next, whole := b.next, b.whole
	b.mu.Unlock()
	if next != nil {
		return next.ended()
	}
	return whole
}

// Close closes the body once it is released.
func (b *held) Close() error {
	b.mu.Lock()
	b.closed = true
	released := b.released
	b.mu.Unlock()
	if !released {
		return nil
	}
	return b.body.Close()
}

// touched reports whether some of the body may be gone.
func (b *held) touched() bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.read
}

// release closes the body when no other call follows.
func (b *held) release() {
	if b == nil {
		return
	}
	b.mu.Lock()
	b.released = true
	closed := b.closed
	b.mu.Unlock()
	if closed {
		b.body.Close()
	}
}

// A followed is the body of a response. It reports the end of the call: when the body has
// been read to its end, or is closed.
type followed struct {
	io.ReadCloser
	ended atomic.Bool // set once; there is nothing else for a mutex to guard
	done  func(complete bool)
}

// follow returns body wrapped so that done is called at its end, with whether it was read to there. A body that is writable,
// as after a 101, stays writable.
func follow(body io.ReadCloser, done func(complete bool)) io.ReadCloser {
	f := &followed{ReadCloser: body, done: done}
	if w, ok := body.(io.Writer); ok {
		return &upgraded{f, w}
	}
	return f
}

func (f *followed) Read(p []byte) (int, error) {
	n, err := f.ReadCloser.Read(p)
	if err != nil {
		f.end(err == io.EOF)
	}
	return n, err
}

// Buffered returns how much can be read without blocking, as far as the Transport knows.
func (f *followed) Buffered() int {
	if b, ok := f.ReadCloser.(interface{ Buffered() int }); ok {
		return b.Buffered()
	}
	return 0
}

func (f *followed) Close() error {
	err := f.ReadCloser.Close()
	f.end(false)
	return err
}

func (f *followed) end(complete bool) {
	if f.ended.CompareAndSwap(false, true) {
		f.done(complete)
	}
}

// An upgraded is the body of a 101: both directions of a connection. It ends only with
// Close, because one direction may outlast the other.
type upgraded struct {
	*followed
	io.Writer
}

func (u *upgraded) Read(p []byte) (int, error) { return u.ReadCloser.Read(p) }

// CloseWrite closes the write direction if the connection can do that.
func (u *upgraded) CloseWrite() error {
	if c, ok := u.Writer.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return errors.ErrUnsupported
}
