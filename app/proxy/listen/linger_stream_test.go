package listen_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/weir-go/weir/app/proxy/listen"
)

// Types and flags of HTTP/2 frames (RFC 9113, section 6).
const (
	frameData, frameHeaders, frameReset, frameSettings, frameWindow = 0, 1, 3, 4, 8

	flagEnd, flagEndHeaders = 1, 4
)

func writeFrame(t *testing.T, c net.Conn, kind, flags byte, stream uint32, payload []byte) {
	t.Helper()
	head := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	head = binary.BigEndian.AppendUint32(append(head, flags), stream)
	if _, err := c.Write(append(head, payload...)); err != nil {
		t.Fatal(err)
	}
}

// readFrame returns the next frame of stream 1 that is no WINDOW_UPDATE.
func readFrame(t *testing.T, c net.Conn) (kind, flags byte, payload []byte) {
	t.Helper()
	for {
		var head [9]byte
		if _, err := io.ReadFull(c, head[:]); err != nil {
			t.Fatalf("reading a frame: %v", err)
		}
		payload = make([]byte, binary.BigEndian.Uint32(head[:])>>8)
		if _, err := io.ReadFull(c, payload); err != nil {
			t.Fatal(err)
		}
		if binary.BigEndian.Uint32(head[5:]) == 1 && head[3] != frameWindow {
			return head[3], head[4], payload
		}
	}
}

// startUpload begins a request over HTTP/2 without TLS, and sends a part of its body. Without a
// length, the request has none.
func startUpload(t *testing.T, s *listen.Server, path, length, expect string) net.Conn {
	t.Helper()
	c := dial(t, s)
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	writeFrame(t, c, frameSettings, 0, 0, nil)
	block := []byte{0x83, 0x86, 4, byte(len(path))} // POST, http, and :path
	block = append(append(block, path...), 1, 1, 'h')
	field := func(index byte, value string) {
		if value != "" {
			block = append(append(block, 0x0f, index-15, byte(len(value))), value...)
		}
	}
	field(28, length) // content-length
	field(35, expect)
	writeFrame(t, c, frameHeaders, flagEndHeaders, 1, block)
	if expect == "" {
		writeFrame(t, c, frameData, 0, 1, make([]byte, 16<<10))
	}
	return c
}

// H19: over HTTP/2, a client receives the whole response to an upload before its stream is
// reset. A reset that arrives with the response makes some clients lose it.
func TestH19_EarlyResponseOverHTTP2ComesBeforeTheReset(t *testing.T) {
	listen.SetLingerStream(t, 30*time.Second)
	for name, c := range map[string]struct {
		path, length string
		client       func(*testing.T, net.Conn) // what it does once it has the response
	}{
		"reset by the client":      {"/413", "20971520", func(t *testing.T, c net.Conn) { writeFrame(t, c, frameReset, 0, 1, make([]byte, 4)) }},
		"read in part":             {"/read/413", "2097152", func(t *testing.T, c net.Conn) { writeFrame(t, c, frameReset, 0, 1, make([]byte, 4)) }},
		"a success":                {"/200", "32768", nil},
		"without a length":         {"/503", "", nil},
		"the client is soon ready": {"/429", "32768", nil},
	} {
		t.Run(name, func(t *testing.T) {
			returned := make(chan struct{})
			s := serve(t, listen.Config{H2C: true}, listen.Options{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer close(returned)
				refusing(w, r)
			})})
			conn := startUpload(t, s, c.path, c.length, "")
			for range 63 { // with the first, the 1 MiB that /read waits for, and that may be in flight
				if c.path != "/read/413" {
					break
				}
				writeFrame(t, conn, frameData, 0, 1, make([]byte, 16<<10))
			}
			<-returned
			var got bytes.Buffer
			for got.String() != "refused\n" {
				kind, flags, payload := readFrame(t, conn)
				if kind == frameReset || flags&flagEnd != 0 {
					t.Fatalf("frame %d with flags %d after %q; want the response before the end of its stream", kind, flags, &got)
				}
				if kind == frameData {
					got.Write(payload)
				}
			}
			if c.client != nil {
				c.client(t, conn)
				return
			}
			writeFrame(t, conn, frameData, flagEnd, 1, make([]byte, 16<<10))
			if kind, flags, payload := readFrame(t, conn); kind != frameData || flags&flagEnd == 0 || len(payload) > 0 {
				t.Errorf("frame %d with flags %d and %q; want the end of the response", kind, flags, payload)
			}
		})
	}
}

// H19: a client of HTTP/2 that sends nothing more receives the end of the response after a bounded
// time, and one that waits for a 100 gets none after the response.
func TestH19_LingeringStreamHasBounds(t *testing.T) {
	listen.SetLingerStream(t, 10*time.Millisecond)
	for name, expect := range map[string]string{"silent": "", "waits for a 100": "100-continue"} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, listen.Config{H2C: true}, listen.Options{Handler: refusing})
			c := startUpload(t, s, "/413", "20971520", expect)
			heads := 0
			for {
				kind, flags, payload := readFrame(t, c)
				if kind == frameHeaders {
					heads++
				}
				if kind == frameReset {
					if code := binary.BigEndian.Uint32(payload); code != 0 || heads != 1 {
						t.Errorf("a reset with code %d after %d heads, flags %d; want NO_ERROR after one", code, heads, flags)
					}
					return
				}
			}
		})
	}
}

// H19: a stream of unknown length, as of gRPC, is not waited for after a success.
func TestH19_NoLingeringForStreams(t *testing.T) {
	listen.SetLingerStream(t, time.Hour)
	s := serve(t, listen.Config{H2C: true}, listen.Options{Handler: refusing})
	c := startUpload(t, s, "/200", "", "")
	for {
		if kind, _, _ := readFrame(t, c); kind == frameReset {
			return
		}
	}
}

// H19: a handler's panic resets the stream at once.
func TestH19_NoLingeringAfterAPanic(t *testing.T) {
	listen.SetLingerStream(t, time.Hour)
	s := serve(t, listen.Config{H2C: true}, listen.Options{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		panic(http.ErrAbortHandler)
	})})
	c := startUpload(t, s, "/200", "20971520", "")
	for {
		if kind, _, payload := readFrame(t, c); kind == frameReset {
			if binary.BigEndian.Uint32(payload) == 0 {
				t.Error(errors.New("the reset says NO_ERROR"))
			}
			return
		}
	}
}
