package rawcorpus

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// The reader of the fuzz targets is strict in everything that decides where a message
// ends, and tolerant where RFC 9112 allows it.

var (
	anyRequestLine = regexp.MustCompile("^([!#$%&'*+.^_`|~0-9A-Za-z-]+) ([^ ]+) HTTP/1\\.[0-9]$")
	anyFieldLine   = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+:")
	anyChunkLine   = regexp.MustCompile(`^([0-9a-fA-F]{1,16})[ \t]*(;.*)?$`)
	anyStatusLine  = regexp.MustCompile(`^HTTP/1\.[0-9] ([1-9][0-9][0-9])( .*)?$`)
)

// tolerantFields reads lines that end with LF or CR LF, up to an empty one, and unfolds
// them.
func tolerantFields(br *bufio.Reader) (lines []string, err error) {
	for {
		line, err := tolerantLine(br)
		switch {
		case err != nil:
			return nil, err
		case line == "":
			return lines, nil
		case (line[0] == ' ' || line[0] == '\t') && len(lines) > 0:
			lines[len(lines)-1] += " " + strings.Trim(line, " \t")
		case !anyFieldLine.MatchString(line):
			return nil, fmt.Errorf("field %q", line)
		default:
			lines = append(lines, line)
		}
	}
}

func tolerantLine(br *bufio.Reader) (string, error) {
	line, err := br.ReadString('\n')
	if err != nil {
		return "", io.EOF
	}
	return strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r"), nil
}

// readTolerant reads one request. io.EOF means that there is none, or only a part of
// one.
func readTolerant(br *bufio.Reader) (m message, err error) {
	line, err := tolerantLine(br)
	if err != nil {
		return m, err
	}
	found := anyRequestLine.FindStringSubmatch(wide(line))
	if found == nil {
		return m, fmt.Errorf("request line %q", line)
	}
	m.start = line[:len(line)-len(" HTTP/1.1")]
	if m.fields, err = tolerantFields(br); err != nil {
		return m, err
	}
	if len(m.values("content-length"))+len(m.values("transfer-encoding")) == 0 {
		return m, nil
	}
	whole, err := m.tolerantBody(br)
	if err == nil && !whole {
		err = io.EOF
	}
	return m, err
}

// tolerantBody reads a body as the fields say. whole is false if it is cut off.
func (m *message) tolerantBody(br *bufio.Reader) (whole bool, err error) {
	lengths, codings := m.values("content-length"), m.values("transfer-encoding")
	if len(codings) > 0 {
		if len(codings) != 1 || !strings.EqualFold(codings[0], "chunked") {
			return false, fmt.Errorf("codings %q", codings)
		}
		return m.tolerantChunks(br)
	}
	for _, l := range lengths {
		if l != lengths[0] || !digits.MatchString(l) {
			return false, fmt.Errorf("lengths %q", lengths)
		}
	}
	n, _ := strconv.ParseUint(lengths[0], 10, 63) // at most 15 digits
	b, err := io.ReadAll(io.LimitReader(br, int64(n)))
	m.body = string(b)
	return uint64(len(b)) == n, err
}

func (m *message) tolerantChunks(br *bufio.Reader) (whole bool, err error) {
	for {
		line, err := tolerantLine(br)
		if err != nil {
			return false, nil
		}
		found := anyChunkLine.FindStringSubmatch(wide(line))
		if found == nil {
			return false, fmt.Errorf("chunk %q", line)
		}
		n, err := strconv.ParseUint(found[1], 16, 63)
		if err != nil {
			return false, err
		}
		if n == 0 {
			break
		}
		b, err := io.ReadAll(io.LimitReader(br, int64(n)))
		m.body += string(b)
		if err != nil || uint64(len(b)) < n {
			return false, err
		}
		if line, err := tolerantLine(br); err != nil {
			return false, nil
		} else if line != "" {
			return false, fmt.Errorf("chunk ends %q", line)
		}
	}
	m.trailer, err = tolerantFields(br)
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	return err == nil, err
}

// readTolerantAnswer reads one response to a GET. It ends with the connection if
// nothing else ends it.
func readTolerantAnswer(br *bufio.Reader) (m message, err error) {
	line, err := tolerantLine(br)
	if err != nil {
		return m, err
	}
	found := anyStatusLine.FindStringSubmatch(wide(line))
	if found == nil {
		return m, fmt.Errorf("status line %q", line)
	}
	m.start = found[1]
	if m.fields, err = tolerantFields(br); err != nil {
		return m, err
	}
	switch {
	case m.start[0] == '1' || m.start == "204" || m.start == "304":
		return m, nil
	case len(m.values("content-length"))+len(m.values("transfer-encoding")) == 0:
		b, _ := io.ReadAll(br) // the end of the string is the only possible error
		m.body = string(b)
		return m, nil
	}
	whole, err := m.tolerantBody(br)
	m.broken = !whole
	return m, err
}
