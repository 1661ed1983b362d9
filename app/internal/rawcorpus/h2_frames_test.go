package rawcorpus

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The frame types of HTTP/2 (RFC 9113, section 6).
const (
	frameData = iota
	frameHeaders
	framePriority
	frameReset
	frameSettings
	framePush
	framePing
	frameGoAway
	frameWindow
	frameContinuation
)

const (
	flagEnd        = 1 // also ACK
	flagEndHeaders = 4
	flagPadded     = 8
	flagPriority   = 32
)

// An h2 is an HTTP/2 client that can send any frames.
type h2 struct {
	net.Conn
	br      *bufio.Reader
	decoder fieldDecoder
	block   []byte // of an unfinished header block
	streams map[uint32]*exchange
}

// An exchange is the response on a stream.
type exchange struct {
	message
	interim []string
	outcome string // the status, "reset", "goaway", or empty while it runs
}

func newH2(c net.Conn) *h2 {
	h := &h2{Conn: c, br: bufio.NewReader(c), streams: map[uint32]*exchange{}}
	io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	h.frame(frameSettings, 0, 0, nil)
	return h
}

// frame writes a frame. Errors are detected by reading.
func (h *h2) frame(kind, flags byte, stream uint32, payload []byte) {
	n := len(payload)
	b := []byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags}
	b = binary.BigEndian.AppendUint32(b, stream)
	_, _ = h.Write(append(b, payload...))
}

// h2Macros are short forms of fields.
var h2Macros = map[string][]string{
	"@":     {":method=GET", ":scheme=https", ":authority=h.test", ":path=/a"},
	"@HEAD": {":method=HEAD", ":scheme=https", ":authority=h.test", ":path=/a"},
	"@POST": {":method=POST", ":scheme=https", ":authority=h.test", ":path=/a"},
	"@last": {":method=GET", ":scheme=https", ":authority=h.test", ":path=/last"},
}

// send writes the frame that a line describes: "[stream:]KIND word…".
func (h *h2) send(t testing.TB, line string) {
	t.Helper()
	words := strings.Fields(line)
	stream, kind := uint32(1), words[0]
	if id, k, ok := strings.Cut(kind, ":"); ok {
		n, _ := strconv.Atoi(id)
		stream, kind = uint32(n), k
	}
	flags := byte(flagEndHeaders)
	end := byte(0)
	var rest []string
	for _, w := range words[1:] {
		switch {
		case w == "end":
			end = flagEnd
		case w == "more":
			flags = 0
		case h2Macros[w] != nil:
			rest = append(rest, h2Macros[w]...)
		default:
			rest = append(rest, w)
		}
	}
	number := func(i int) uint32 {
		if i >= len(rest) {
			t.Fatalf("%q lacks a number", line)
		}
		n, err := strconv.ParseUint(rest[i], 0, 32)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		return uint32(n)
	}
	word := func(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }
	switch kind {
	case "HEADERS":
		h.frame(frameHeaders, flags|end, stream, fieldsOf(t, rest))
	case "CONTINUATION":
		h.frame(frameContinuation, flags, stream, fieldsOf(t, rest))
	case "DATA":
		h.frame(frameData, end, stream, []byte(raw(t, strings.Join(rest, " "))))
	case "RST":
		h.frame(frameReset, 0, stream, word(number(0)))
	case "WINDOW":
		h.frame(frameWindow, 0, stream, word(number(0)))
	case "PRIORITY":
		h.frame(framePriority, 0, stream, append(word(number(0)), 1))
	case "SETTING":
		h.frame(frameSettings, 0, 0, append([]byte{0, byte(number(0))}, word(number(1))...))
	case "PUSH":
		h.frame(framePush, flagEndHeaders, stream, append(word(stream+1), fieldsOf(t, rest)...))
	case "PING":
		h.frame(framePing, 0, 0, make([]byte, 8))
	case "RAW": // type, flags, bytes
		h.frame(byte(number(0)), byte(number(1)), stream, []byte(raw(t, strings.Join(rest[2:], " "))))
	default:
		t.Fatalf("unknown frame %q", line)
	}
}

// fieldsOf encodes fields, each name=value, as a header block.
func fieldsOf(t testing.TB, words []string) []byte {
	t.Helper()
	var fields [][2]string
	for _, w := range words {
		i := strings.Index(w[1:], "=") + 1 // a name can begin with =
		if w[0] == '=' {
			i = 0
		}
		if i < 0 || w[i] != '=' {
			t.Fatalf("field %q", w)
		}
		fields = append(fields, [2]string{raw(t, w[:i]), raw(t, w[i+1:])})
	}
	return encodeFields(fields)
}

// await reads until the stream has its outcome. "goaway" is the end of the connection,
// with or without a GOAWAY frame.
func (h *h2) await(stream uint32) *exchange {
	for {
		e := h.at(stream)
		if e.outcome != "" {
			return e
		}
		var head [9]byte
		_, err := io.ReadFull(h.br, head[:])
		payload := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		if err == nil {
			_, err = io.ReadFull(h.br, payload)
		}
		if err == nil {
			err = h.take(head[3], head[4], binary.BigEndian.Uint32(head[5:])&(1<<31-1), payload)
		}
		if err != nil {
			e.outcome, e.broken = "goaway", true
			if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
				e.outcome = "nothing"
			}
			return e
		}
	}
}

func (h *h2) at(stream uint32) *exchange {
	e := h.streams[stream]
	if e == nil {
		e = &exchange{}
		h.streams[stream] = e
	}
	return e
}

// take records the effect of a frame.
func (h *h2) take(kind, flags byte, stream uint32, payload []byte) error {
	e := h.at(stream)
	switch kind {
	case frameSettings:
		if flags&flagEnd == 0 {
			h.frame(frameSettings, flagEnd, 0, nil)
		}
	case framePing:
		if flags&flagEnd == 0 {
			h.frame(framePing, flagEnd, 0, payload)
		}
	case frameHeaders, frameContinuation: // of net/http, which uses neither padding nor priorities
		if kind == frameHeaders {
			h.block = nil
		}
		if h.block = append(h.block, payload...); flags&flagEndHeaders == 0 {
			return nil
		}
		fields, err := h.decoder.decode(h.block)
		if err != nil {
			return err
		}
		e.head(fields)
	case frameData:
		e.body += string(payload)
		if n := uint32(len(payload)); n > 0 {
			h.frame(frameWindow, 0, 0, binary.BigEndian.AppendUint32(nil, n))
			h.frame(frameWindow, 0, stream, binary.BigEndian.AppendUint32(nil, n))
		}
	case frameReset:
		if e.outcome == "" {
			e.outcome, e.broken = "reset", true
		}
		return nil
	case frameGoAway:
		if !slices.Equal(payload[4:8], []byte{0, 0, 0, 0}) {
			for _, e := range h.streams {
				if e.outcome == "" {
					e.outcome, e.broken = "goaway", true
				}
			}
		}
		return nil
	}
	if (kind == frameHeaders || kind == frameData) && flags&flagEnd != 0 && e.outcome == "" {
		e.outcome = e.start
	}
	return nil
}

// head records a header block: of an interim response, a final one, or a trailer.
func (e *exchange) head(fields []string) {
	var status string
	var lines []string
	for _, f := range fields {
		if s, ok := strings.CutPrefix(f, ":status="); ok {
			status = s
			continue
		}
		name, value, _ := strings.Cut(f, "=")
		lines = append(lines, name+": "+value)
	}
	switch {
	case e.start != "":
		e.trailer = lines
	case strings.HasPrefix(status, "1"):
		e.interim = append(e.interim, status)
	default:
		e.start, e.fields = status, lines
	}
}
