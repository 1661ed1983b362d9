package httpwire

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"testing"
)

// counting counts the bytes read from a stream.
type counting struct {
	r io.Reader
	n int
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += n
	return n, err
}

// ends scans text up to the first fault. It returns the text passed, without
// blank lines, and the offsets in it at which messages end.
func ends(s *Scanner, text []byte) (passed []byte, ends []int) {
	for i := 0; i <= len(text); {
		n, e, err := s.Next(text[i:])
		if e != Blank {
			passed = append(passed, text[i:i+n]...)
		}
		i += n
		switch {
		case err != nil || e == Switched:
			return passed, ends
		case e == End:
			ends = append(ends, len(passed))
		case e == More && i == len(text):
			return passed, ends
		}
	}
	return passed, ends
}

// If the Scanner reads a complete request, net/http either rejects it or reads
// the same bytes as the request.
func FuzzRequests(f *testing.F) {
	for _, c := range good {
		f.Add([]byte(c.text), 3)
	}
	for _, text := range []string{
		post("Transfer-Encoding: chunked\r\nTrailer: X\r\n") + "2;a=b\r\nab\r\n0\r\nX: y\r\n\r\n",
		post("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n") + "0\r\n\r\n",
		"\r\n" + post("Transfer-Encoding: \tchunked\r\nConnection: close\r\n") + "0\r\n\r\n",
		"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n", "POST / HTTP/1.0\r\nContent-Length: 2\r\n\r\nab",
	} {
		f.Add([]byte(text), 1)
	}
	f.Fuzz(func(t *testing.T, text []byte, piece int) {
		passed, want := ends(NewScanner(Requests), text)
		sameInPieces(t, Requests, text, piece)
		src := &counting{r: bytes.NewReader(passed)}
		br := bufio.NewReader(src)
		for _, end := range want {
			r, err := http.ReadRequest(br)
			if err != nil {
				return // net/http rejects more
			}
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				return
			}
			if got := src.n - br.Buffered(); got != end {
				t.Fatalf("net/http ends at %d, the Scanner at %d, of %q", got, end, passed)
			}
		}
	})
}

// The same for responses.
func FuzzResponses(f *testing.F) {
	for _, text := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab", "HTTP/1.1 200 OK\nContent-Length: 2\n\nabHTTP/1.1 204 None\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX: y\r\n\r\n", "HTTP/1.0 200 OK\r\n\r\nrest",
		"HTTP/1.1 304 Not\r\nContent-Length: 5\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n",
	} {
		f.Add([]byte(text), false, 2)
		f.Add([]byte(text), true, 2)
	}
	f.Fuzz(func(t *testing.T, text []byte, head bool, piece int) {
		method := "GET"
		if head {
			method = "HEAD"
		}
		s := NewScanner(Responses)
		s.Answers(method)
		passed, want := ends(s, text)
		sameInPieces(t, Responses, text, piece)
		src := &counting{r: bytes.NewReader(passed)}
		br := bufio.NewReader(src)
		for _, end := range want {
			r, err := http.ReadResponse(br, &http.Request{Method: method})
			if err != nil {
				return
			}
			if r.StatusCode < 200 && r.StatusCode != 101 {
				r.Body = http.NoBody // the transport knows that
			}
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				return
			}
			if got := src.n - br.Buffered(); got != end {
				t.Fatalf("net/http ends at %d, the Scanner at %d, of %q", got, end, passed)
			}
		}
	})
}

// sameInPieces checks that the result does not depend on how the input is split.
func sameInPieces(t *testing.T, k Kind, text []byte, piece int) {
	if piece = piece % 64; piece < 1 {
		piece = 1
	}
	_, whole, err := read(NewScanner(k), string(text), len(text)+1)
	_, pieces, perr := read(NewScanner(k), string(text), piece)
	if whole != pieces || err != perr {
		t.Fatalf("in pieces of %d: %q, %v; want %q, %v", piece, pieces, perr, whole, err)
	}
}
