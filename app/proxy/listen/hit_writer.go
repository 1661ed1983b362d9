package listen

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// gathered is how many bytes of a response are sent in one write.
	gathered = 64 << 10
	// counted is how many bytes of a body of unknown length net/http buffers, so that
	// it can send a Content-Length.
	counted = 2048
)

var hitWriters = sync.Pool{New: func() any { return &hitWriter{header: http.Header{}} }}

// A hitWriter writes one HTTP/1.1 response as net/http does: the same bytes, but in a
// single write if there are few. It does not support trailers, flushing and early
// responses, which stored responses do not have either.
type hitWriter struct {
	to      io.Writer
	head    bool // the request's method is HEAD
	header  http.Header
	names   []string // of the header, sorted; left from the previous response, which can have had others
	status  int
	length  int64 // as announced; -1: none
	written int64
	begun   bool         // the header is in out
	out     bytes.Buffer // not written yet
	early   []byte       // the body so far, while its length is unknown
	last    bool         // the connection ends with this response
	err     error
}

func (w *hitWriter) reset(to io.Writer, r *http.Request) {
	clear(w.header)
	w.out.Reset()
	if w.out.Cap() > 2*gathered {
		w.out = bytes.Buffer{}
	}
	*w = hitWriter{to: to, head: r.Method == http.MethodHead, header: w.header, names: w.names, out: w.out, early: w.early[:0], length: -1}
}

func (w *hitWriter) Header() http.Header { return w.header }

func (w *hitWriter) WriteHeader(status int) {
	if w.status != 0 || status < 200 {
		return
	}
	w.status = status
	if v := w.header["Content-Length"]; len(v) > 0 {
		if n, err := strconv.ParseInt(v[0], 10, 64); err == nil && n >= 0 {
			w.length = n
		} else {
			delete(w.header, "Content-Length")
		}
	}
}

func (w *hitWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.err != nil {
		return 0, w.err
	}
	if !bodyAllowed(w.status) {
		return 0, http.ErrBodyNotAllowed
	}
	if w.length >= 0 && w.written+int64(len(p)) > w.length {
		return 0, http.ErrContentLength
	}
	w.written += int64(len(p))
	if w.head {
		if w.length < 0 && len(w.early) < counted {
			w.early = append(w.early, p...)
		}
		return len(p), nil
	}
	if w.length < 0 {
		w.early = append(w.early, p...) // an error's; a stored response has a length
		return len(p), nil
	}
	w.begin(p)
	w.send(p)
	return len(p), w.err
}

// begin writes the header of a response whose body begins with p.
func (w *hitWriter) begin(p []byte) {
	if w.begun {
		return
	}
	w.begun = true
	b := &w.out
	b.WriteString("HTTP/1.1 ")
	number := b.AvailableBuffer()
	b.Write(strconv.AppendInt(number, int64(w.status), 10))
	b.WriteByte(' ')
	if text := http.StatusText(w.status); text != "" {
		b.WriteString(text)
	} else {
		b.WriteString("status code ")
		b.WriteString(strconv.Itoa(w.status))
	}
	b.WriteString("\r\n")
	var without map[string]bool
	if !bodyAllowed(w.status) {
		without = withoutBody
		if w.status == http.StatusNotModified {
			without = notModified
		}
	}
	if w.header.Get("Connection") == "close" {
		w.last = true
	}
	w.fields(without)
	if _, ok := w.header["Date"]; !ok {
		b.WriteString("Date: ")
		b.WriteString(date())
		b.WriteString("\r\n")
	}
	chunked := false
	if _, ok := w.header["Content-Length"]; !ok && without == nil {
		switch {
		case len(w.early) > counted:
			chunked = !w.head
		case !w.head || len(w.early) > 0:
			b.WriteString("Content-Length: ")
			b.WriteString(strconv.Itoa(len(w.early)))
			b.WriteString("\r\n")
		}
	}
	if _, ok := w.header["Content-Type"]; !ok && without == nil && len(p) > 0 && w.header.Get("Content-Encoding") == "" {
		b.WriteString("Content-Type: ")
		b.WriteString(http.DetectContentType(p))
		b.WriteString("\r\n")
	}
	if chunked {
		b.WriteString("Transfer-Encoding: chunked\r\n\r\n")
		b.WriteString(strconv.FormatInt(int64(len(w.early)), 16))
		b.WriteString("\r\n")
		b.Write(w.early)
		b.WriteString("\r\n0\r\n\r\n")
		w.early = w.early[:0]
		return
	}
	b.WriteString("\r\n")
}

// fields writes the header as http.Header.WriteSubset does. That spends most of its
// time on sorting, but the names are mostly the same as in the previous response.
func (w *hitWriter) fields(without map[string]bool) {
	for _, name := range w.names {
		if _, ok := w.header[name]; !ok {
			w.names = w.names[:0]
			break
		}
	}
	if len(w.names) != len(w.header) {
		w.names = slices.AppendSeq(w.names[:0], maps.Keys(w.header))
		slices.Sort(w.names)
	}
	for _, name := range w.names {
		if without[name] || !token(name) {
			continue
		}
		for _, value := range w.header[name] {
			if strings.IndexByte(value, '\n') >= 0 || strings.IndexByte(value, '\r') >= 0 {
				value = oneLine.Replace(value)
			}
			w.out.WriteString(name)
			w.out.WriteString(": ")
			w.out.WriteString(textproto.TrimString(value))
			w.out.WriteString("\r\n")
		}
	}
}

var oneLine = strings.NewReplacer("\n", " ", "\r", " ")

// send writes p, together with the bytes in out if both fit into one write.
func (w *hitWriter) send(p []byte) {
	if n := gathered - w.out.Len(); len(p) > n {
		w.out.Write(p[:n])
		w.flush()
		p = p[n:]
		if len(p) >= gathered {
			if w.err == nil {
				_, w.err = w.to.Write(p)
			}
			return
		}
	}
	w.out.Write(p)
}

func (w *hitWriter) flush() {
	if w.err == nil {
		_, w.err = w.to.Write(w.out.Bytes())
	}
	w.out.Reset()
}

// finish writes what is left, and reports whether the connection can continue.
func (w *hitWriter) finish() bool {
	w.WriteHeader(http.StatusOK)
	w.begin(w.early)
	if !w.head && w.length < 0 {
		w.send(w.early)
	}
	w.flush()
	short := !w.head && w.length > w.written && bodyAllowed(w.status)
	w.to = nil
	return w.err == nil && !w.last && !short
}

// withoutBody and notModified are the fields that net/http omits from responses without
// a body.
var (
	withoutBody = map[string]bool{"Content-Length": true, "Transfer-Encoding": true}
	notModified = map[string]bool{"Content-Type": true, "Content-Length": true, "Transfer-Encoding": true}
)

func bodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}

// A dateText is the value of the Date field during one second.
type dateText struct {
	second int64
	text   string
}

var lastDate atomic.Pointer[dateText]

// date returns the current value of the Date field.
func date() string {
	now := time.Now()
	if d := lastDate.Load(); d != nil && d.second == now.Unix() {
		return d.text
	}
	d := &dateText{now.Unix(), now.UTC().Format(http.TimeFormat)}
	lastDate.Store(d)
	return d.text
}
