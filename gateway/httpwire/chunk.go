package httpwire

// chunk reads a byte between the chunks of a body.
func (s *Scanner) chunk(b byte) (int, Event, error) {
	switch s.state {
	case atSize, inSize:
		return s.sizeByte(b)
	case inExtension:
		return s.extensionByte(b)
	case atSizeLF:
		if b != '\n' {
			return 0, More, faultCR
		}
		s.state = inChunk
		if s.left == 0 {
			s.state, s.trailer = atField, true
		}
		return 1, More, nil
	case atChunkCR:
		if b != '\r' {
			return 0, More, faultChunkEnd
		}
		s.state = atChunkLF
		return 1, More, nil
	default: // atChunkLF
		if b != '\n' {
			return 0, More, faultChunkEnd
		}
		s.state = atSize
		return 1, More, nil
	}
}

// sizeByte reads a byte of a chunk's size: at most 15 digits, so that the number cannot
// overflow.
func (s *Scanner) sizeByte(b byte) (int, Event, error) {
	if s.state == atSize {
		s.at, s.left, s.ext, s.quote, s.escape = 0, 0, 0, false, false
		s.state = inSize
	}
	if d := hexDigit[b]; d > 0 {
		if s.at++; s.at > 15 {
			return 0, More, faultChunkSize
		}
		s.left = s.left<<4 | int64(d-1)
		return 1, More, nil
	}
	if s.at == 0 {
		return 0, More, faultChunkSize
	}
	switch b {
	case '\r':
		s.state = atSizeLF
	case ';':
		s.state = inExtension
	default:
		return 0, More, faultChunkLine
	}
	return 1, More, nil
}

// extensionByte reads a byte of a chunk's extensions. Their content is ignored; only bytes
// that could hide something are rejected.
func (s *Scanner) extensionByte(b byte) (int, Event, error) {
	s.ext++
	s.exts++
	switch {
	case s.ext > MaxChunkLine || s.exts > MaxExtensions:
		return 0, More, faultExtensions
	case b == '\r' && !s.quote:
		s.state = atSizeLF
	case !isValue[b]:
		return 0, More, faultChunkLine
	case s.escape:
		s.escape = false
	case b == '\\' && s.quote:
		s.escape = true
	case b == '"':
		s.quote = !s.quote
	}
	return 1, More, nil
}
