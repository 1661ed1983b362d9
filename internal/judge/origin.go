package judge

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// callTime is how long the origin takes to its headers, so that requests at once overlap.
const callTime = 100 * time.Millisecond

// callField names the call that a response's fields come from.
const callField = "X-Call"

// A Seen is a request as the origin saw it.
type Seen struct {
	Method, Target, Body          string
	Header                        http.Header
	Address, Certificate, Program string
}

// A Call is one call to the origin.
type Call struct {
	Number           int
	By               int // the request that the system made it for, -1 if unknown
	Seen             Seen
	Start, Head, End time.Time
	Status           int
	Header           http.Header
}

// A recorder is the origin of one history. It answers by all that counts.
type recorder struct {
	origin Origin
	stream bool

	mu    sync.Mutex
	calls []*Call // guarded by mu; the calls change under mu, too
}

func (o *recorder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := o.begin(r)
	time.Sleep(callTime)
	digest := c.Seen.digest()
	etag := ""
	if o.origin.ETag {
		etag = `"` + digest + `"`
	}
	h := w.Header()
	o.describe(h, c, etag)
	line := fmt.Sprintf("call=%06d seen=%s\n", c.Number, digest)
	body := strings.Repeat(line, 4)
	status := o.status(c, etag)
	switch first, last, ok := byteRange(c.Seen.Header.Get("Range"), len(body)); {
	case status == http.StatusNotModified:
		body = ""
		if o.origin.Cookie304 {
			h.Set("Set-Cookie", "call="+strconv.Itoa(c.Number))
		}
		if o.origin.Control304 != "" {
			h.Set("Cache-Control", o.origin.Control304)
		}
	case status == http.StatusOK && o.origin.Parts && ok && r.Method == http.MethodGet && c.Seen.Header.Get("If-Range") == "":
		status = http.StatusPartialContent
		h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last, len(body)))
		body = body[first : last+1]
	case status == http.StatusOK && o.origin.Rows && c.Seen.Header.Get("Range") != "" && !ok:
		h.Set("Content-Range", "rows 0-4/*")
	}
	if o.stream && status == http.StatusOK {
		o.write(w, c, status, h, "data: "+line+"\n")
		time.Sleep(callTime)
		_, _ = io.WriteString(w, "data: "+line+"\ndata: [DONE]\n\n")
	} else {
		if r.Method == http.MethodHead {
			body = ""
		}
		o.write(w, c, status, h, body)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	c.End = time.Now()
}

func (o *recorder) begin(r *http.Request) *Call {
	body := ""
	if r.Body != nil {
		var b bytes.Buffer
		_, _ = io.Copy(&b, io.LimitReader(r.Body, 1<<20))
		body = b.String()
	}
	c := &Call{By: caller(r), Start: time.Now(), Seen: Seen{
		Method: r.Method, Target: r.URL.RequestURI(), Body: body, Header: r.Header.Clone(),
		Program: Identity(r),
	}}
	c.Seen.Address, _, _ = net.SplitHostPort(r.RemoteAddr)
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		c.Seen.Certificate = string(r.TLS.PeerCertificates[0].Raw)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	c.Number = len(o.calls)
	o.calls = append(o.calls, c)
	return c
}

// describe writes the fields of the response to c, but those of a part.
func (o *recorder) describe(h http.Header, c *Call, etag string) {
	s := o.origin
	now := time.Now()
	h.Set("Date", now.UTC().Format(http.TimeFormat))
	h.Set(callField, strconv.Itoa(c.Number))
	set := func(name, value string) {
		if value != "" {
			h.Set(name, value)
		}
	}
	set("Cache-Control", s.CacheControl)
	set("Etag", etag)
	set("Content-Encoding", s.Coding)
	if s.Expires != 0 {
		h.Set("Expires", now.Add(s.Expires).UTC().Format(http.TimeFormat))
	}
	if s.LastModified {
		h.Set("Last-Modified", now.Add(-1000*time.Hour).UTC().Format(http.TimeFormat))
	}
	if len(s.Vary) > 0 {
		for line := range strings.SplitSeq(s.Vary[c.Number%len(s.Vary)], "\n") {
			if line != "" {
				h.Add("Vary", line)
			}
		}
	}
	if s.Cookie {
		h.Set("Set-Cookie", "call="+strconv.Itoa(c.Number))
	}
	switch s.Allow {
	case "*":
		h.Set("Access-Control-Allow-Origin", "*")
	case "echo":
		set("Access-Control-Allow-Origin", c.Seen.Header.Get("Origin"))
	}
	h.Set("Content-Type", "text/plain")
	if o.stream {
		h.Set("Content-Type", "text/event-stream")
	}
}

func (o *recorder) status(c *Call, etag string) int {
	h := c.Seen.Header
	if o.origin.NeedsKey && h.Get("Authorization") == "" && h.Get("X-Api-Key") == "" {
		return http.StatusUnauthorized
	}
	if s := o.origin.Status; len(s) > 0 && s[c.Number%len(s)] != 0 {
		return s[c.Number%len(s)]
	}
	read := c.Seen.Method == http.MethodGet || c.Seen.Method == http.MethodHead
	if match := h.Get("If-Match"); match != "" && match != "*" && !strings.Contains(match, etag) {
		return http.StatusPreconditionFailed
	}
	if read && etag != "" && strings.Contains(strings.Join(h["If-None-Match"], ","), etag) {
		return http.StatusNotModified
	}
	return http.StatusOK
}

// write records the end of the headers before it sends them: what the system does next
// happens after it.
func (o *recorder) write(w http.ResponseWriter, c *Call, status int, h http.Header, body string) {
	o.mu.Lock()
	c.Status, c.Head, c.Header = status, time.Now(), h.Clone()
	o.mu.Unlock()
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
	if f, ok := w.(http.Flusher); ok && o.stream {
		f.Flush()
	}
}

// byteRange reads the one range of bytes that the generator draws.
func byteRange(field string, size int) (first, last int, ok bool) {
	if n, _ := fmt.Sscanf(field, "bytes=%d-%d", &first, &last); n == 2 && first <= last && first < size {
		return first, min(last, size-1), true
	}
	return 0, 0, false
}

// digest is of everything that could matter. An origin may depend on the program, too, if
// it reports that with Vary.
func (s Seen) digest() string {
	d := sha256.New()
	fmt.Fprintf(d, "%q %q %q %q %q", s.Target, s.Body, s.Address, s.Certificate, s.Program)
	for _, name := range slices.Sorted(maps.Keys(s.Header)) {
		if kind := KindOf(name, s.Header[name]); kind != KindRequest && kind != KindCondition {
			fmt.Fprintf(d, "%q %q", name, s.Header[name])
		}
	}
	return fmt.Sprintf("%x", d.Sum(nil)[:8])
}
