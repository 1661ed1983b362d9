package forward_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/gateway/internal/fault"
	"github.com/weir-go/weir/gateway/internal/forward"
)

// Frames of HTTP/2 (RFC 9113, section 6), and flags.
const (
	dataFrame, headersFrame, resetFrame, settingsFrame, goawayFrame, windowFrame = 0, 1, 3, 4, 7, 8

	endStream, endHeaders, ack = 1, 4, 1
)

// A framer is the server's end of an HTTP/2 connection, frame by frame.
type framer struct {
	c  net.Conn
	br *bufio.Reader
}

// begin reads the preface and exchanges settings.
func begin(c net.Conn, br *bufio.Reader, settings ...byte) *framer {
	preface := make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
	if _, err := io.ReadFull(br, preface); err != nil {
		return nil
	}
	f := &framer{c, br}
	f.write(settingsFrame, 0, 0, settings...)
	f.write(windowFrame, 0, 0, 0, 0xff, 0xff, 0xff)
	return f
}

func (f *framer) write(kind, flags byte, stream uint32, payload ...byte) {
	b := []byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), kind, flags}
	f.c.Write(append(binary.BigEndian.AppendUint32(b, stream), payload...))
}

func (f *framer) read() (kind, flags byte, stream uint32, payload []byte, err error) {
	var h [9]byte
	if _, err = io.ReadFull(f.br, h[:]); err != nil {
		return
	}
	payload = make([]byte, int(h[0])<<16|int(h[1])<<8|int(h[2]))
	_, err = io.ReadFull(f.br, payload)
	return h[3], h[4], binary.BigEndian.Uint32(h[5:]), payload, err
}

// answer sends 200 without a body.
func (f *framer) answer(stream uint32) {
	f.write(headersFrame, endHeaders|endStream, stream, 0x88)
}

func (f *framer) goaway(last, code uint32) {
	f.write(goawayFrame, 0, 0, binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, last), code)...)
}

func (f *framer) reset(stream, code uint32) {
	f.write(resetFrame, 0, stream, binary.BigEndian.AppendUint32(nil, code)...)
}

// A picky server runs the requests of each connection for which runs is true, and calls
// refuse for the others. It counts how often each body was run.
type picky struct {
	runs   func(conn, n int) bool // the nth request of a connection, from 1
	refuse func(f *framer, stream, last uint32)

	mu    sync.Mutex
	conns int
	ran   []string // bodies
}

func (p *picky) serve(c net.Conn, br *bufio.Reader) {
	f := begin(c, br)
	if f == nil {
		return
	}
	p.mu.Lock()
	p.conns++
	conn := p.conns
	p.mu.Unlock()
	bodies, n, last := map[uint32]*bytes.Buffer{}, 0, uint32(0)
	for {
		kind, flags, stream, payload, err := f.read()
		if err != nil {
			return
		}
		switch {
		case kind == settingsFrame && flags&ack == 0:
			f.write(settingsFrame, ack, 0)
		case kind == headersFrame:
			if n++; !p.runs(conn, n) {
				p.refuse(f, stream, last)
				continue
			}
			bodies[stream], last = new(bytes.Buffer), stream
		case kind == dataFrame && bodies[stream] != nil:
			bodies[stream].Write(payload)
		}
		if (kind == headersFrame || kind == dataFrame) && flags&endStream != 0 && bodies[stream] != nil {
			p.mu.Lock()
			p.ran = append(p.ran, bodies[stream].String())
			p.mu.Unlock()
			f.answer(stream)
		}
	}
}

var refusals = map[string]func(f *framer, stream, last uint32){
	"GOAWAY": func(f *framer, _, last uint32) { f.goaway(last, 0) },
	"GOAWAY twice": func(f *framer, _, last uint32) {
		f.goaway(1<<31-1, 0)
		f.goaway(last, 0)
	},
	"GOAWAY, then the end": func(f *framer, _, last uint32) { // and reads on, as servers do, so that nothing is lost
		f.goaway(last, 0)
		f.c.(interface{ CloseWrite() error }).CloseWrite()
	},
	"GOAWAY with a code": func(f *framer, _, last uint32) { f.goaway(last, 11) }, // ENHANCE_YOUR_CALM
	"REFUSED_STREAM":     func(f *framer, stream, _ uint32) { f.reset(stream, 7) },
	"both": func(f *framer, stream, last uint32) {
		f.reset(stream, 7)
		f.goaway(last, 0)
	},
}

// send sends n requests at once, each with its number as its body unless with is nil.
func send(t *testing.T, rt http.RoundTripper, n int, method string, with func(r *http.Request, body string)) (failed []error) {
	t.Helper()
	errs := make(chan error, n)
	for i := range n {
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			r, _ := http.NewRequestWithContext(ctx, method, "http://x/", nil)
			if with != nil {
				with(r, fmt.Sprint("body ", i))
			}
			resp, err := rt.RoundTrip(r)
			if err == nil {
				resp.Body.Close()
			}
			errs <- err
		}()
	}
	for range n {
		if err := <-errs; err != nil {
			failed = append(failed, err)
		}
	}
	return failed
}

// replayable is a body that was read ahead.
func replayable(r *http.Request, body string) {
	r.ContentLength = int64(len(body))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(body)), nil }
	r.Body, _ = r.GetBody()
}

// Requests that a server has not run are sent again, whatever its method; nothing runs
// twice.
func TestH15_WhatHasNotRunIsSentAgain(t *testing.T) {
	for name, refuse := range refusals {
		for _, scheme := range []string{"h2c", "https"} {
			for _, method := range []string{"GET", "DELETE", "POST"} {
				if method == "POST" && name == "GOAWAY, then the end" {
					continue // bodies of streams that it accepted may still be on their way
				}
				t.Run(fmt.Sprint(name, " ", scheme, " ", method), func(t *testing.T) {
					p := &picky{runs: func(_, n int) bool { return n%8 != 0 }, refuse: refuse}
					if strings.HasPrefix(name, "GOAWAY") || name == "both" {
						p.runs = func(_, n int) bool { return n <= 7 }
					}
					fn := p.serve
					secured, options := secure(t, fn, "h2")
					if scheme == "https" {
						fn = secured
					}
					tr := serve(t, loopback(t), fn).transport(t, scheme, options)
					var with func(*http.Request, string)
					if method == "POST" {
						with = replayable
					}
					const all = 100
					for _, err := range send(t, tr, all, method, with) {
						t.Errorf("a request failed: %v", err)
					}
					p.mu.Lock()
					defer p.mu.Unlock()
					slices.Sort(p.ran)
					if method == "POST" {
						p.ran = slices.Compact(p.ran)
					}
					if len(p.ran) != all {
						t.Errorf("%d requests ran; want %d, each once", len(p.ran), all)
					}
				})
			}
		}
	}
}

// A request that may have run is not sent again: below the last stream of a GOAWAY, or
// reset with any other code.
func TestH15_WhatMayHaveRunIsNotSentAgain(t *testing.T) {
	for name, end := range map[string]func(f *framer, stream uint32){
		"GOAWAY that includes it": func(f *framer, stream uint32) { f.goaway(stream, 0); f.c.Close() },
		"GOAWAY after it":         func(f *framer, stream uint32) { f.goaway(stream+20, 0); f.c.Close() },
		"the end":                 func(f *framer, _ uint32) { f.c.Close() },
		"PROTOCOL_ERROR":          func(f *framer, stream uint32) { f.reset(stream, 1) },
		"INTERNAL_ERROR":          func(f *framer, stream uint32) { f.reset(stream, 2) },
		"CANCEL":                  func(f *framer, stream uint32) { f.reset(stream, 8) },
		"ENHANCE_YOUR_CALM":       func(f *framer, stream uint32) { f.reset(stream, 11) },
		"HTTP_1_1_REQUIRED":       func(f *framer, stream uint32) { f.reset(stream, 13) },
		"NO_ERROR":                func(f *framer, stream uint32) { f.reset(stream, 0) },
		"PROTOCOL_ERROR and GOAWAY": func(f *framer, stream uint32) {
			f.reset(stream, 1)
			f.goaway(stream, 1)
		},
	} {
		for _, method := range []string{"GET", "POST"} {
			t.Run(name+" "+method, func(t *testing.T) {
				ran := 0
				first := &picky{runs: func(int, int) bool { return false }, refuse: func(f *framer, stream, _ uint32) {
					ran++
					end(f, stream)
				}}
				tr := serve(t, loopback(t), first.serve).transport(t, "h2c")
				var with func(*http.Request, string)
				if method == "POST" {
					with = replayable
				}
				if failed := send(t, tr, 1, method, with); len(failed) != 1 || !fault.Upstreams(failed[0]) {
					t.Errorf("RoundTrip = %v; want an error of the server", failed)
				}
				if ran != 1 {
					t.Errorf("the request ran %d times; want once", ran)
				}
			})
		}
	}
}

// A body that cannot be read again fails if part of it was sent, with a reason and without
// blame, and is sent if nothing was read.
func TestH15_ABodyThatWasReadIsNotSentAgain(t *testing.T) {
	read := make(chan bool)
	p := &picky{runs: func(conn, _ int) bool { return conn > 1 }, refuse: func(f *framer, _, last uint32) {
		<-read
		f.goaway(last, 0)
	}}
	tr := serve(t, loopback(t), p.serve).transport(t, "h2c")
	failed := send(t, tr, 1, "POST", func(r *http.Request, _ string) {
		body, w := io.Pipe()
		go func() {
			w.Write([]byte("some"))
			close(read)
		}()
		t.Cleanup(func() { w.Close() })
		r.Body, r.ContentLength = body, -1
	})
	var not *fault.NotRunError
	if len(failed) != 1 || !errors.As(failed[0], &not) || fault.Upstreams(failed[0]) {
		t.Fatalf("RoundTrip = %v; want a NotRunError", failed)
	}
	if code, kind := forward.Failure(failed[0]); code != 502 || !strings.HasPrefix(kind, `connection_terminated; details="the server did not process`) {
		t.Errorf("Failure = %d, %s", code, kind)
	}
	if failed := send(t, tr, 1, "POST", nil); len(failed) > 0 {
		t.Errorf("the next request = %v; want 200", failed)
	}
}

// A server that refuses every stream is at fault, after a bounded number of attempts.
func TestH15_AServerThatRefusesEverythingIsAtFault(t *testing.T) {
	for _, name := range []string{"GOAWAY", "REFUSED_STREAM"} {
		p := &picky{runs: func(int, int) bool { return false }, refuse: refusals[name]}
		tr := serve(t, loopback(t), p.serve).transport(t, "h2c")
		if failed := send(t, tr, 1, "GET", nil); len(failed) != 1 || !fault.Upstreams(failed[0]) {
			t.Errorf("%s: RoundTrip = %v; want an error of the server", name, failed)
		}
	}
}
