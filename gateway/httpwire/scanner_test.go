package httpwire

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// read scans text in pieces of piece bytes. It returns the bytes of each head and
// each body, and the fault.
func read(s *Scanner, text string, piece int) (parts []string, passed string, fault error) {
	part := ""
	for len(text) > 0 {
		p := []byte(text[:min(piece, len(text))])
		text = text[len(p):]
		for i := 0; i < len(p); {
			n, e, err := s.Next(p[i:])
			part += string(p[i : i+n])
			i += n
			switch {
			case err != nil:
				return parts, passed + part, err
			case e == Blank:
				part = ""
			case e == HeadEnd:
				parts = append(parts, "H "+part)
				passed, part = passed+part, ""
			case e == End:
				parts = append(parts, "B "+part)
				passed, part = passed+part, ""
			case e == Switched:
				passed, part = passed+part, ""
				parts = append(parts, "S")
			}
			if e == End && n == 0 && i == len(p) {
				break
			}
		}
		// A message without a body ends with its head.
		if n, e, err := s.Next(nil); err == nil && e == End && n == 0 {
			parts = append(parts, "B ")
		}
	}
	return parts, passed + part, nil
}

const get = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n"

func post(fields string) string { return "POST /a HTTP/1.1\r\nHost: h\r\n" + fields + "\r\n" }

var good = []struct {
	name, text string
	parts      []string
}{
	{"a GET", get, []string{"H " + get, "B "}},
	{"two", get + get, []string{"H " + get, "B ", "H " + get, "B "}},
	{"empty lines before", "\r\n\r\n" + get + "\r\n" + get, []string{"H " + get, "B ", "H " + get, "B "}},
	{"a length", post("Content-Length: 3\r\n") + "abc" + get, []string{"H " + post("Content-Length: 3\r\n"), "B abc", "H " + get, "B "}},
	{"a length twice", post("content-length: 3\r\nCONTENT-LENGTH:\t3 \r\n") + "abc", []string{"H " + post("content-length: 3\r\nCONTENT-LENGTH:\t3 \r\n"), "B abc"}},
	{"no length", post("Content-Length: 0\r\n") + get, []string{"H " + post("Content-Length: 0\r\n"), "B ", "H " + get, "B "}},
	{"chunks", post("transfer-encoding: Chunked \r\n") + "1\r\na\r\nA;x=\"\\\";\"\r\n0123456789\r\n0\r\nX: y\r\n\r\n" + get,
		[]string{"H " + post("transfer-encoding: Chunked \r\n"), "B 1\r\na\r\nA;x=\"\\\";\"\r\n0123456789\r\n0\r\nX: y\r\n\r\n", "H " + get, "B "}},
	{"another coding", post("Transfer-Encoding: gzip, chunked\r\n"), []string{"H " + post("Transfer-Encoding: gzip, chunked\r\n")}},
	{"names that begin alike", post("Content-Lengths: x\r\nTransfer-Encoding-X: y\r\nTransfer-Encodin: z\r\n"), []string{"H " + post("Content-Lengths: x\r\nTransfer-Encoding-X: y\r\nTransfer-Encodin: z\r\n"), "B "}},
	{"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00", []string{"S"}},
	{"bytes that are no ASCII", "GET /\xff HTTP/1.1\r\nHost: h\r\nX: \xe4\t\r\n\r\n", []string{"H GET /\xff HTTP/1.1\r\nHost: h\r\nX: \xe4\t\r\n\r\n", "B "}},
}

// H18: messages end where RFC 9112 defines, however the input is split.
func TestH18_WhereRequestsEnd(t *testing.T) {
	for _, c := range good {
		for _, piece := range []int{1, 2, 3, 7, 1 << 20} {
			parts, _, err := read(NewScanner(Requests), c.text, piece)
			var seen []string
			for _, p := range parts {
				if p != "S" || len(seen) == 0 {
					seen = append(seen, p)
				}
			}
			if err != nil || fmt.Sprintf("%q", seen) != fmt.Sprintf("%q", c.parts) {
				t.Errorf("%s, in pieces of %d: %q, %v; want %q", c.name, piece, parts, err, c.parts)
			}
		}
	}
}

// A row is an invalid message, with the part before the fault.
type row struct {
	name, text, passed string
	fault              error
}

func TestH18_FaultsOfRequests(t *testing.T) {
	chunked := post("Transfer-Encoding: chunked\r\n")
	line := "GET /a HTTP/1.1\r\n"
	both := post("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n")
	old := "POST /a HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"
	faults(t, Requests, "", []row{
		{"both", both, both[:len(both)-1], faultBoth},
		{"both with another coding", post("Content-Length: 1\r\nTransfer-Encoding: x\r\n"), "", faultBoth},
		{"coding in HTTP/1.0", old, old[:len(old)-1], faultOldCoding},
		{"after another coding", post("Transfer-Encoding: xchunked\r\n") + "0", post("Transfer-Encoding: xchunked\r\n"), faultAfterRefused},
		{"chunked twice", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n") + "0", "", faultAfterRefused},
		{"lengths", post("Content-Length: 1\r\nContent-Length: 2\r\n"), "", faultLengths},
		{"three lengths", post("Content-Length: 1\r\nContent-Length: 1\r\nContent-Length: 2\r\n"), "", faultLengths},
		{"list", post("Content-Length: 1, 1\r\n"), "", faultLength},
		{"no number", post("Content-Length:\r\n"), "", faultLength},
		{"plus", post("Content-Length: +1\r\n"), "", faultLength},
		{"two numbers", post("Content-Length: 1 1\r\n"), "", faultLength},
		{"overflow", post("Content-Length: 9223372036854775808\r\n"), "", faultLength},
		{"fold", line + "X: y\r\n z: w\r\n\r\n", line + "X: y\r\n", faultFold},
		{"fold at first", line + "\tX: y\r\n\r\n", line, faultFold},
		{"fold at last", line + "X: y\r\n \r\n\r\n", line + "X: y\r\n", faultFold},
		{"blank before colon", line + "X : y\r\n\r\n", line + "X", faultBeforeColon},
		{"no colon", line + "X\r\n\r\n", line + "X", faultName},
		{"no name", line + ": x\r\n\r\n", line, faultName},
		{"null in name", line + "X\x00: x\r\n\r\n", line + "X", faultName},
		{"null in value", line + "X: \x00\r\n\r\n", line + "X: ", faultValue},
		{"delete in value", line + "X: \x7f\r\n\r\n", line + "X: ", faultValue},
		{"CR in value", line + "X: a\rb\r\n\r\n", line + "X: a\r", faultCR},
		{"two CR", line + "X: a\r\r\n\r\n", line + "X: a\r", faultCR},
		{"LF in value", line + "X: a\nb: c\r\n\r\n", line + "X: a", faultLF},
		{"LF at the end", line + "X: a\r\n\n", line + "X: a\r\n", faultLF},
		{"LF after the line", "GET /a HTTP/1.1\nX: a\r\n\r\n", line[:len(line)-2], faultLF},
		{"CR before the end", line + "\rX: a\r\n\r\n", line + "\r", faultCR},
		{"LF before", "\nGET", "", faultMethod},
		{"CR before", "\rGET", "", faultCR},
		{"blank before", " GET /", "", faultMethod},
		{"method", "G@T / HTTP/1.1\r\n", "G", faultMethod},
		{"two blanks", "GET  / HTTP/1.1\r\n", "GET  ", faultVersion},
		{"blank in target", "GET /a b HTTP/1.1\r\n", "GET /a ", faultVersion},
		{"tab in target", "GET /a\tb HTTP/1.1\r\n", "GET /a", faultTarget},
		{"no version", "GET /a\r\n\r\n", "GET /a", faultTarget},
		{"version", "GET /a HTTP/1.1x\r\n", "GET /a HTTP/1.1", faultVersion},
		{"version in lower case", "GET /a http/1.1\r\n", "GET /a ", faultVersion},
		{"preface later", get + "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", get + "PRI * HTTP/2.0\r\n\r\nSM", faultMethod},
		{"many empty lines", strings.Repeat("\r\n", MaxBlank+1) + get, "", faultBlankLines},
		{"chunk size", chunked + "x\r\n", chunked, faultChunkSize},
		{"no chunk size", chunked + "\r\n", chunked, faultChunkSize},
		{"chunk size with sign", chunked + "-1\r\n", chunked, faultChunkSize},
		{"chunk size in hex", chunked + "0x1\r\n", chunked + "0", faultChunkLine},
		{"chunk size too long", chunked + "0000000000000001\r\n", chunked + strings.Repeat("0", 15), faultChunkSize},
		{"blank before chunk size", chunked + " 1\r\n", chunked, faultChunkSize},
		{"blank after chunk size", chunked + "1 \r\n", chunked + "1", faultChunkLine},
		{"LF after chunk size", chunked + "1\na\r\n", chunked + "1", faultChunkLine},
		{"LF after extension", chunked + "1;a\na\r\n", chunked + "1;a", faultChunkLine},
		{"CR in extension", chunked + "1;a\rb\r\n", chunked + "1;a\r", faultCR},
		{"CRLF in quotes", chunked + "1;a=\"\r\nb\r\n", chunked + "1;a=\"", faultChunkLine},
		{"extension too long", chunked + "1;" + strings.Repeat("a", MaxChunkLine+1), "", faultExtensions},
		{"extensions too many", chunked + strings.Repeat("1;"+strings.Repeat("a", 1000)+"\r\na\r\n", 17), "", faultExtensions},
		{"chunk too long", chunked + "1\r\nab\r\n", chunked + "1\r\na", faultChunkEnd},
		{"chunk ends with LF", chunked + "1\r\na\n", chunked + "1\r\na", faultChunkEnd},
		{"LF after the last chunk", chunked + "0\r\n\n", chunked + "0\r\n", faultLF},
		{"blank before a trailer's colon", chunked + "0\r\nX : y\r\n\r\n", chunked + "0\r\nX", faultBeforeColon},
		{"folded trailer", chunked + "0\r\nX: y\r\n z\r\n\r\n", chunked + "0\r\nX: y\r\n", faultFold},
	})
}

// H5: responses that are rejected, and responses that are accepted.
func TestH5_FaultsOfAnswers(t *testing.T) {
	ok := "HTTP/1.1 200 OK\r\n"
	chunked := ok + "Transfer-Encoding: chunked\r\n\r\n"
	faults(t, Responses, "GET", []row{
		{"both", ok + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "", faultBoth},
		{"coding in HTTP/1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "", faultOldCoding},
		{"both in a 304", "HTTP/1.1 304 Not Modified\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "", faultBoth},
		{"another coding", ok + "Transfer-Encoding: gzip\r\n\r\n", "", faultCoding},
		{"chunks in a 204", "HTTP/1.1 204 None\r\nTransfer-Encoding: chunked\r\n\r\n", "", faultNoBody},
		{"a length in a 204", "HTTP/1.1 204 None\r\nContent-Length: 1\r\n\r\n", "", faultNoBody},
		{"chunks in a 103", "HTTP/1.1 103 Hints\r\nTransfer-Encoding: chunked\r\n\r\n", "", faultNoBody},
		{"one length twice", ok + "Content-Length: 1\r\nContent-Length: 1\r\n\r\na", "", faultLengths},
		{"blank before colon", ok + "Cache-Control : private\r\n\r\n", ok + "Cache-Control", faultBeforeColon},
		{"fold", ok + "X: y\r\n z\r\n\r\n", ok + "X: y\r\n", faultFold},
		{"name", ok + "X(: y\r\n\r\n", ok + "X", faultName},
		{"null", ok + "X: \x00y\r\n\r\n", ok + "X: ", faultValue},
		{"chunk", chunked + "y\r\n", chunked, faultChunkSize},
		{"empty line before", "\r\n" + ok, "", faultVersion},
		{"status", "HTTP/1.1 2x0 OK\r\n", "HTTP/1.1 2", faultStatus},
		{"long status", "HTTP/1.1 2000 OK\r\n", "HTTP/1.1 200", faultStatus},
		{"status below 100", "HTTP/1.1 099 OK\r\n", "HTTP/1.1 ", faultStatus},
		{"version", "HTTP/2.0 200 OK\r\n", "HTTP/2.0", faultVersion},
		{"another protocol", "ICY 200 OK\r\n", "", faultVersion},
	})
	type want struct {
		method, text string
		parts        string
	}
	for _, w := range []want{
		{"GET", ok + "Content-Length: 1\r\n\r\na", "[\"H\" \"B a\"]"},
		{"GET", "HTTP/1.1 200\r\nContent-Length: 1\r\n\r\na", "[\"H\" \"B a\"]"},
		{"GET", "HTTP/1.1 200 OK\nContent-Length: 1\n\na", "[\"H\" \"B a\"]"},
		{"HEAD", ok + "Content-Length: 1\r\n\r\n", "[\"H\" \"B \"]"},
		{"HEAD", ok + "Transfer-Encoding: chunked\r\n\r\n", "[\"H\" \"B \"]"},
		{"GET", "HTTP/1.1 204 None\r\nContent-Length: 0\r\n\r\n", "[\"H\" \"B \"]"},
		{"GET", "HTTP/1.1 103 Early\r\nLink: x\r\n\r\n" + chunked + "1\r\na\r\n0\r\n\r\n", "[\"H\" \"B \" \"H\" \"B 1\\r\\na\\r\\n0\\r\\n\\r\\n\"]"},
		{"GET", ok + "\r\nuntil the end", "[\"H\"]"},
	} {
		for _, piece := range []int{1, 5, 1000} {
			s := NewScanner(Responses)
			s.Answers(w.method)
			parts, _, err := read(s, w.text, piece)
			for i, p := range parts {
				if p[0] == 'H' {
					parts[i] = "H"
				}
			}
			if got := fmt.Sprintf("%q", parts); err != nil || got != w.parts {
				t.Errorf("%s %q in pieces of %d: %s, %v; want %s", w.method, w.text, piece, got, err, w.parts)
			}
		}
	}
}

func faults(t *testing.T, k Kind, method string, rows []row) {
	t.Helper()
	for _, r := range rows {
		for _, piece := range []int{1, 2, 5, 1 << 20} {
			s := NewScanner(k)
			s.Answers(method)
			_, passed, err := read(s, r.text, piece)
			if !errors.Is(err, r.fault) || r.passed != "" && passed != r.passed {
				t.Errorf("%s, in pieces of %d: %v after %q; want %v after %q", r.name, piece, err, passed, r.fault, r.passed)
			}
			if _, _, again := s.Next([]byte("x")); again != err {
				t.Errorf("%s: later %v; want the fault to stay", r.name, again)
			}
		}
	}
}

func TestH18_ReadingAllocatesNothing(t *testing.T) {
	text := []byte(post("Content-Length: 3\r\nAccept: */*\r\n") + "abc")
	s := NewScanner(Requests)
	if n := testing.AllocsPerRun(100, func() {
		for i := 0; i < len(text); {
			n, _, err := s.Next(text[i:])
			if err != nil {
				t.Fatal(err)
			}
			i += n
		}
	}); n != 0 {
		t.Errorf("%v allocations; want none", n)
	}
}

func BenchmarkHead(b *testing.B) {
	text := []byte("GET /some/path?with=a&query=b HTTP/1.1\r\nHost: example.test\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\nAccept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\nAccept-Language: en-US,en;q=0.5\r\nAccept-Encoding: gzip, deflate, br, zstd\r\nConnection: keep-alive\r\n\r\n")
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	s := NewScanner(Requests)
	for b.Loop() {
		for i := 0; i < len(text); {
			n, _, err := s.Next(text[i:])
			if err != nil {
				b.Fatal(err)
			}
			i += n
		}
		s.Next(nil)
	}
}
