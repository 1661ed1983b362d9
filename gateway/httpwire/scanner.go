package httpwire

// A Kind is the kind of messages that a Scanner reads.
type Kind uint8

// The kinds of messages.
const (
	Requests Kind = iota
	Responses
)

// An Event is the reason why Next returned.
type Event uint8

// The events of a Scanner.
const (
	// More: all bytes were read, and the message continues.
	More Event = iota
	// Blank: these bytes are not part of a message. They are an empty line before a
	// request, which is ignored (RFC 9112, section 2.2).
	Blank
	// HeadEnd: the head ends with these bytes.
	HeadEnd
	// End: the message ends with these bytes. After a head without a body there are no
	// bytes.
	End
	// Switched: HTTP/1 ends here. Next returns it at the preface of HTTP/2 and after a 101
	// response, and from then on.
	Switched
)

// The bounds of a Scanner. net/http bounds everything else.
const (
	// MaxBlank is how many empty lines a Scanner accepts before a request.
	MaxBlank = 4
	// MaxChunkLine is the length in bytes of a chunk's extensions that a Scanner accepts.
	MaxChunkLine = 1 << 10
	// MaxExtensions is how many bytes of extensions a Scanner accepts in one message.
	MaxExtensions = 16 << 10
)

// A Head is the framing that a message head declares.
type Head struct {
	Major, Minor int   // version of HTTP
	Status       int   // of a response
	Length       int64 // of the body; -1 if it is not declared
	Chunked      bool  // the body is in chunks
	// UntilClose means that the body ends with the connection.
	UntilClose bool
}

// A Scanner reads the messages of one direction of a connection, one after the
// other. The zero value reads requests. It is not safe for concurrent use.
type Scanner struct {
	kind  Kind
	state state
	head  Head
	fault error

	begun   bool // a message has already begun
	nobody  bool // a response to HEAD
	trailer bool // the fields are trailers
	preface bool // so far this may be the preface of HTTP/2
	blanks  int  // empty lines before this request

	line  [8]byte  // the method, later the version
	at    int      // in line, in a target, in a status, or in a chunk's size
	name  [17]byte // of a field, or the beginning of a longer one
	size  int      // of name, 18 for a longer one
	field field
	digit digit // where in the value of a Content-Length

	lengths, codings int    // lines
	length, before   uint64 // the Content-Length of this line, and of the previous one
	coding           [8]byte
	codingSize       int
	spaced           bool // a blank came after the coding
	chunked          bool // the one coding is chunked

	left          int64 // of the body, or of the chunk
	ext, exts     int   // bytes of extensions: of the chunk, and of the message
	quote, escape bool  // in an extension
}

// NewScanner returns a Scanner.
func NewScanner(k Kind) *Scanner { return &Scanner{kind: k} }

// Init makes s a Scanner at the beginning of a connection.
func (s *Scanner) Init(k Kind) { *s = Scanner{kind: k} }

// Answers sets the request method of the next response. Call it only between responses.
func (s *Scanner) Answers(method string) { s.nobody = method == "HEAD" }

// Head returns the head of the current message, or of the last one.
func (s *Scanner) Head() Head { return s.head }

// Between reports whether the Scanner is between messages.
func (s *Scanner) Between() bool { return s.state == atStart || s.state == atStartLF }

// InHead reports whether the Scanner is in a head, or between messages.
func (s *Scanner) InHead() bool { return s.state <= atHeadLF && !s.trailer }

// InStatusLine reports whether the Scanner is in the first line of a response, or before it.
func (s *Scanner) InStatusLine() bool { return s.state <= atLineLF }

// Refused reports whether the Scanner has read a head that net/http rejects, so that the
// end of its message is unknown.
func (s *Scanner) Refused() bool { return s.state == refused }

// Left returns how many bytes remain of a body with a length, or of a chunk, and 0
// elsewhere.
func (s *Scanner) Left() int64 {
	if s.state == inBody || s.state == inChunk {
		return s.left
	}
	return 0
}

// Length returns how many bytes remain of a body with a known length, and 0 elsewhere: the
// message ends with these bytes.
func (s *Scanner) Length() int64 {
	if s.state == inBody {
		return s.left
	}
	return 0
}

// A state is the Scanner's position in a message. The states of heads come first.
type state uint8

const (
	atStart state = iota
	atStartLF
	inMethod
	inTarget
	inVersion
	inStatus
	inReason
	atLineLF
	atField // the first byte of a field line
	inName
	inValue
	atValueLF
	atHeadLF
	headOver // the head ended, the message not yet
	inBody
	inUntilClose
	atSize // the first byte of a chunk's size
	inSize
	inExtension
	atSizeLF
	inChunk
	atChunkCR
	atChunkLF
	refused  // net/http rejects this message: nothing may follow
	switched // no HTTP/1
)

// Next reads p up to the next event, and returns the number of bytes read. An error is a
// *Fault at the byte p[n]; later calls return it again.
func (s *Scanner) Next(p []byte) (n int, e Event, err error) {
	if s.fault != nil {
		return 0, More, s.fault
	}
	if s.state == headOver {
		if e := s.begin(); e != More {
			return 0, e, nil
		}
	}
	for n < len(p) {
		var step int
		step, e, err = s.step(p[n:])
		n += step
		if err != nil {
			s.fault = err
			return n, More, err
		}
		if e != More {
			return n, e, nil
		}
	}
	return n, More, nil
}

// step reads at least the first byte of p.
func (s *Scanner) step(p []byte) (int, Event, error) {
	switch s.state {
	case inValue:
		return s.value(p)
	case inName:
		return s.fieldName(p)
	case inTarget:
		return s.target(p)
	case inBody, inChunk:
		return s.data(p)
	case inUntilClose:
		return len(p), More, nil
	case switched:
		return len(p), Switched, nil
	case refused:
		return 0, More, faultAfterRefused
	}
	if s.state >= headOver {
		return s.chunk(p[0])
	}
	return s.headByte(p[0])
}

// begin continues after a head, and returns End if the message has no body.
func (s *Scanner) begin() Event {
	switch h := s.head; {
	case h.Status == 101:
		s.state = switched
		return Switched
	case s.codings > 0 && !s.chunked && !s.bodyless():
		s.state = refused
		return More
	case h.Chunked:
		s.state = atSize
		return More
	case h.UntilClose:
		s.state = inUntilClose
		return More
	case h.Length > 0:
		s.left, s.state = h.Length, inBody
		return More
	}
	return s.end()
}

func (s *Scanner) end() Event {
	s.state, s.trailer = atStart, false
	return End
}

// data skips the bytes of a body.
func (s *Scanner) data(p []byte) (int, Event, error) {
	n := int64(len(p))
	if n < s.left {
		s.left -= n
		return len(p), More, nil
	}
	n, s.left = s.left, 0
	if s.state == inBody {
		return int(n), s.end(), nil
	}
	s.state = atChunkCR
	return int(n), More, nil
}
