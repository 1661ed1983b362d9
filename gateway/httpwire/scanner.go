package httpwire

// A Kind is what a Scanner reads.
type Kind uint8

// What there is to read.
const (
	Requests Kind = iota
	Responses
)

// An Event is why Next came back.
type Event uint8

// The events of a Scanner.
const (
	// More: all of the bytes were read, and the message goes on.
	More Event = iota
	// Blank: these bytes are no part of a message. They are an empty line before
	// a request, which RFC 9112 section 2.2 says to ignore.
	Blank
	// HeadEnd: these bytes end with the head.
	HeadEnd
	// End: these bytes end with the message. There may be none of them, after a
	// head without a body.
	End
	// Switched: HTTP/1 ends here. It comes at the preface of HTTP/2, after an
	// response 101, and at all times after it.
	Switched
)

// The bounds of a Scanner. What has none here is bounded by net/http.
const (
	// MaxBlank is how many empty lines may come before a request.
	MaxBlank = 4
	// MaxChunkLine is the length in bytes of a chunk's extensions.
	MaxChunkLine = 1 << 10
	// MaxExtensions is how many bytes the extensions of one message may have.
	MaxExtensions = 16 << 10
)

// A Head is what the head of a message says about its framing.
type Head struct {
	Major, Minor int
	Status       int   // of a response
	Length       int64 // of the body; -1 when that is not told beforehand
	Chunked      bool
	// UntilClose: the body ends with the connection.
	UntilClose bool
}

// A Scanner reads the messages of one direction of a connection, one after the
// other. The zero value reads requests. It is not safe for concurrent use.
type Scanner struct {
	kind  Kind
	state state
	head  Head
	fault error

	begun   bool // a message has begun before
	nobody  bool // the response answers a HEAD
	trailer bool // the fields are those behind the chunks
	preface bool // so far this may be the preface of HTTP/2
	blanks  int  // empty lines before this request

	line  [8]byte  // the method, and then the version
	at    int      // in line, in a target, in a status, or in a chunk's size
	name  [17]byte // of a field, or the beginning of one that is longer
	size  int      // of name, 18 for what is longer
	field field
	digit digit // where in the value of a Content-Length

	lengths, codings int    // lines
	length, before   uint64 // the Content-Length of this line, and of the one before
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

// Answers says to which method the next response is. It is called between
// responses only.
func (s *Scanner) Answers(method string) { s.nobody = method == "HEAD" }

// Head is that of the message that is being read, or was read last.
func (s *Scanner) Head() Head { return s.head }

// Between reports whether no byte of a message has come since the last ended.
func (s *Scanner) Between() bool { return s.state == atStart || s.state == atStartLF }

// InHead reports whether the Scanner is in a head, or between messages.
func (s *Scanner) InHead() bool { return s.state <= atHeadLF && !s.trailer }

// Refused reports whether a head has passed that net/http refuses, so that it is
// not known where its message ends.
func (s *Scanner) Refused() bool { return s.state == refused }

// Left returns how much of a body with a length, or of a chunk, is to come. It
// is 0 elsewhere.
func (s *Scanner) Left() int64 {
	if s.state == inBody || s.state == inChunk {
		return s.left
	}
	return 0
}

// Length returns how much is to come of a body whose length is known, and 0 in
// any other place: the message ends with these bytes.
func (s *Scanner) Length() int64 {
	if s.state == inBody {
		return s.left
	}
	return 0
}

// A state is where in a message the Scanner is. Those of heads come first.
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
	refused  // net/http refuses this message: nothing may follow
	switched // no HTTP/1
)

// Next reads p up to the next event, and returns how many bytes that took. An
// error is a *Fault at the byte p[n], and stays.
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

// step reads the first byte of p at least, or as many as belong together.
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

// begin goes on after a head, and returns End if there is no more.
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

// data passes over what is a body.
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
