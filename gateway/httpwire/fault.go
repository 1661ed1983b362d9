package httpwire

// A Fault describes what is wrong with a message. It contains nothing of the message, so it
// can be logged. Reason is one of a fixed set of texts.
type Fault struct{ Reason string }

func (f *Fault) Error() string { return "malformed HTTP/1 message: " + f.Reason }

// The faults of messages.
var (
	faultBlankLines   = &Fault{"too many empty lines before a request"}
	faultCR           = &Fault{"a CR without LF"}
	faultLF           = &Fault{"an LF without CR"}
	faultMethod       = &Fault{"the method is not a token"}
	faultTarget       = &Fault{"a control character or a second blank in the request line"}
	faultVersion      = &Fault{"the HTTP version is invalid"}
	faultStatus       = &Fault{"the status is not three digits"}
	faultReason       = &Fault{"a control character in the status line"}
	faultFold         = &Fault{"a folded field line"}
	faultName         = &Fault{"a field name that is not a token"}
	faultBeforeColon  = &Fault{"a blank before the colon of a field"}
	faultValue        = &Fault{"a control character in a field value"}
	faultLength       = &Fault{"a Content-Length that is not a number"}
	faultLengths      = &Fault{"more than one Content-Length"}
	faultBoth         = &Fault{"Content-Length and Transfer-Encoding together"}
	faultOldCoding    = &Fault{"Transfer-Encoding in HTTP/1.0"}
	faultCoding       = &Fault{"a Transfer-Encoding other than chunked"}
	faultNoBody       = &Fault{"a body announced for a status that has none"}
	faultChunkSize    = &Fault{"a chunk size that is not a number"}
	faultChunkLine    = &Fault{"a malformed chunk line"}
	faultExtensions   = &Fault{"too many chunk extensions"}
	faultChunkEnd     = &Fault{"a chunk without its end"}
	faultAfterRefused = &Fault{"bytes after a message whose end is unknown"}
)
