package httpwire

import "math"

// A field is a header field that the framing depends on.
type field uint8

const (
	anyField field = iota
	contentLength
	transferEncoding
)

// A digit is the Scanner's position in the value of a Content-Length.
type digit uint8

const (
	noDigit digit = iota
	someDigits
	afterDigits
)

// headByte reads a byte in a part of a head that is read byte by byte.
func (s *Scanner) headByte(b byte) (int, Event, error) {
	switch s.state {
	case atStart:
		return s.startByte(b)
	case atStartLF:
		if b != '\n' {
			return 0, More, faultCR
		}
		s.state = atStart
		if s.blanks++; s.blanks > MaxBlank {
			return 0, More, faultBlankLines
		}
		return 1, Blank, nil
	case inMethod:
		return s.methodByte(b)
	case inVersion:
		return s.versionByte(b)
	case inStatus:
		return s.statusByte(b)
	case inReason:
		switch {
		case b == '\r':
			s.state = atLineLF
		case b == '\n':
			return s.lineOver()
		case !isValue[b]:
			return 0, More, faultReason
		}
		return 1, More, nil
	case atLineLF:
		if b != '\n' {
			return 0, More, faultCR
		}
		return s.lineOver()
	case atField:
		return s.fieldStart(b)
	case atValueLF:
		if b != '\n' {
			return 0, More, faultCR
		}
		return s.fieldOver()
	default: // atHeadLF
		if b != '\n' {
			return 0, More, faultCR
		}
		return s.headOver()
	}
}

// startByte reads the first byte of a message, or of an empty line before it.
func (s *Scanner) startByte(b byte) (int, Event, error) {
	if s.kind == Requests && b == '\r' {
		s.state = atStartLF
		return 1, Blank, nil
	}
	if s.kind == Requests && !isToken[b] {
		return 0, More, faultMethod
	}
	s.blanks, s.at, s.preface = 0, 0, false
	s.lengths, s.codings, s.length, s.chunked = 0, 0, 0, false
	s.exts = 0
	s.head = Head{Length: -1}
	s.state = inMethod
	if s.kind == Responses {
		s.state = inVersion
	}
	return s.headByte(b)
}

func (s *Scanner) methodByte(b byte) (int, Event, error) {
	switch {
	case b == ' ':
		s.preface = !s.begun && s.at == 3 && string(s.line[:3]) == "PRI"
		s.at, s.state = 0, inTarget
	case !isToken[b]:
		return 0, More, faultMethod
	default:
		s.keep(b)
	}
	return 1, More, nil
}

// keep appends b to line if there is room.
func (s *Scanner) keep(b byte) {
	if s.at < len(s.line) {
		s.line[s.at] = b
		s.at++
	}
}

// target reads the target of a request and the space after it.
func (s *Scanner) target(p []byte) (int, Event, error) {
	for i, b := range p {
		if b > ' ' && b != 0x7f {
			if s.preface {
				s.at++
				s.preface = b == '*' && s.at == 1
			}
			continue
		}
		if b != ' ' {
			return i, More, faultTarget
		}
		s.at, s.state = 0, inVersion
		return i + 1, More, nil
	}
	return len(p), More, nil
}

// versionByte reads the version, at the end of a request line or the beginning
// of a status line.
func (s *Scanner) versionByte(b byte) (int, Event, error) {
	const form = "HTTP/1.1"
	switch {
	case s.at < len(form):
		digit := s.at == 5 || s.at == 7
		if digit && (b < '0' || b > '9') || !digit && b != form[s.at] {
			return 0, More, faultVersion
		}
		s.keep(b)
		return 1, More, nil
	case s.kind == Responses && b == ' ':
		s.setVersion()
		if s.head.Major != 1 {
			return 0, More, faultVersion
		}
		s.at, s.state = 0, inStatus
		return 1, More, nil
	case s.kind == Requests && b == '\r':
		s.setVersion()
		s.state = atLineLF
		return 1, More, nil
	case s.kind == Requests && b == '\n':
		return 0, More, faultLF
	}
	return 0, More, faultVersion
}

func (s *Scanner) setVersion() {
	s.head.Major, s.head.Minor = int(s.line[5]-'0'), int(s.line[7]-'0')
}

// statusByte reads the status and the byte after it. The reason may be missing, and the
// space before it.
func (s *Scanner) statusByte(b byte) (int, Event, error) {
	if s.at < 3 {
		if b < '0' || b > '9' || s.at == 0 && b == '0' {
			return 0, More, faultStatus
		}
		s.head.Status = s.head.Status*10 + int(b-'0')
		s.at++
		return 1, More, nil
	}
	switch b {
	case ' ':
		s.state = inReason
	case '\r':
		s.state = atLineLF
	case '\n':
		return s.lineOver()
	default:
		return 0, More, faultStatus
	}
	return 1, More, nil
}

// lineOver handles the end of the first line.
func (s *Scanner) lineOver() (int, Event, error) {
	s.begun = true
	if s.preface && s.head.Major == 2 && s.head.Minor == 0 {
		s.state = switched
		return 1, Switched, nil
	}
	s.state = atField
	return 1, More, nil
}

// fieldStart reads the first byte of a line: a field line, or the empty line that ends the
// head.
func (s *Scanner) fieldStart(b byte) (int, Event, error) {
	switch {
	case b == '\r':
		s.state = atHeadLF
		return 1, More, nil
	case b == '\n':
		if s.strict() {
			return 0, More, faultLF
		}
		return s.headOver()
	case b == ' ' || b == '\t':
		return 0, More, faultFold
	case !isToken[b]:
		return 0, More, faultName
	}
	s.size, s.state = 0, inName
	return 0, More, nil // fieldName reads it, next
}

// strict reports whether a line must end with CRLF. In the head of a response, a bare LF is
// accepted (RFC 9112, section 2.2): some programs write such heads, and we forward a head
// that we write ourselves.
func (s *Scanner) strict() bool { return s.kind == Requests || s.trailer }

// fieldName reads a name up to its colon.
func (s *Scanner) fieldName(p []byte) (int, Event, error) {
	i := 0
	for i < len(p) && isToken[p[i]] {
		i++
	}
	if s.size < len(s.name) {
		copy(s.name[s.size:], p[:i])
	}
	s.size = min(s.size+i, len(s.name)+1)
	if i < len(p) {
		switch p[i] {
		case ':':
			s.named()
			return i + 1, More, nil
		case ' ', '\t':
			return i, More, faultBeforeColon
		}
		return i, More, faultName
	}
	return len(p), More, nil
}

func lower(b byte) byte {
	if 'A' <= b && b <= 'Z' {
		return b + 'a' - 'A'
	}
	return b
}

// named handles a complete field name.
func (s *Scanner) named() {
	s.state, s.field = inValue, anyField
	if s.trailer {
		return
	}
	switch {
	case s.isName("content-length"):
		s.field, s.digit = contentLength, noDigit
		s.before, s.length = s.length, 0
		s.lengths++
	case s.isName("transfer-encoding"):
		s.field, s.codingSize, s.spaced = transferEncoding, 0, false
		s.codings++
	}
}

// isName reports whether name equals the field name, ignoring case.
func (s *Scanner) isName(name string) bool {
	if s.size != len(name) {
		return false
	}
	for i := range len(name) {
		if lower(s.name[i]) != name[i] {
			return false
		}
	}
	return true
}

// value reads a field's value up to the end of its line.
func (s *Scanner) value(p []byte) (int, Event, error) {
	i := 0
	if s.field == anyField {
		for i < len(p) && isValue[p[i]] {
			i++
		}
	}
	for ; i < len(p); i++ {
		b := p[i]
		if isValue[b] {
			if err := s.framing(b); err != nil {
				return i, More, err
			}
			continue
		}
		switch {
		case b == '\r':
			s.state = atValueLF
			return i + 1, More, nil
		case b != '\n':
			return i, More, faultValue
		case s.strict():
			return i, More, faultLF
		}
		_, e, err := s.fieldOver()
		if err != nil {
			return i, More, err
		}
		return i + 1, e, nil
	}
	return len(p), More, nil
}

// framing reads a byte of a value that the framing depends on.
func (s *Scanner) framing(b byte) error {
	blank := b == ' ' || b == '\t'
	if s.field == transferEncoding {
		switch {
		case blank:
			s.spaced = s.codingSize > 0
		case s.spaced || s.codingSize == len(s.coding):
			s.codingSize = len(s.coding) // not a coding that we know
		default:
			s.coding[s.codingSize] = lower(b)
			s.codingSize++
		}
		return nil
	}
	switch {
	case blank && s.digit == someDigits:
		s.digit = afterDigits
	case blank:
	case b < '0' || b > '9' || s.digit == afterDigits:
		return faultLength
	case s.length > (math.MaxInt64-uint64(b-'0'))/10:
		return faultLength
	default:
		s.length = s.length*10 + uint64(b-'0')
		s.digit = someDigits
	}
	return nil
}

// fieldOver handles the end of a field line.
func (s *Scanner) fieldOver() (int, Event, error) {
	switch s.field {
	case contentLength:
		if s.digit == noDigit { // empty
			return 0, More, faultLength
		}
		// A repeated equal number is not ambiguous (RFC 9110, section 8.6), but a server
		// that sends it twice is probably confused about its response.
		if s.lengths > 1 && (s.kind == Responses || s.before != s.length) {
			return 0, More, faultLengths
		}
	case transferEncoding:
		s.chunked = s.codings == 1 && s.codingSize == len("chunked") && string(s.coding[:s.codingSize]) == "chunked"
	}
	s.state = atField
	return 1, More, nil
}

// headOver handles the end of a head or of the trailers.
func (s *Scanner) headOver() (int, Event, error) {
	if s.trailer {
		return 1, s.end(), nil
	}
	h := &s.head
	switch {
	case s.codings > 0 && (h.Major < 1 || h.Major == 1 && h.Minor == 0):
		return 0, More, faultOldCoding
	case s.codings > 0 && s.lengths > 0:
		return 0, More, faultBoth
	case s.codings > 0 && !s.chunked && s.kind == Responses:
		return 0, More, faultCoding
	case s.kind == Responses && (h.Status < 200 || h.Status == 204) && (s.codings > 0 || s.length > 0):
		// RFC 9112, section 6.1, and RFC 9110, section 8.6. One reader would take the
		// following bytes for a body, another for the next response.
		return 0, More, faultNoBody
	}
	switch {
	case s.bodyless():
		h.Length = 0
	case s.codings > 0:
		h.Chunked = s.chunked
	case s.lengths > 0:
		h.Length = int64(s.length)
	case s.kind == Requests:
		h.Length = 0
	default:
		h.UntilClose = true
	}
	s.state = headOver
	return 1, HeadEnd, nil
}

// Bodyless reports whether the current message, or the last one, is a final response that
// ends with its head (RFC 9112, section 6.3, rule 1).
func (s *Scanner) Bodyless() bool { return s.bodyless() && s.head.Status >= 200 }

// bodyless reports whether this is a response that never has a body.
func (s *Scanner) bodyless() bool {
	code := s.head.Status
	return s.kind == Responses && (s.nobody || code < 200 || code == 204 || code == 304)
}
