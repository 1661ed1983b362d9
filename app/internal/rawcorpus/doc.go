// Package rawcorpus tests weir proxy with raw bytes over real sockets: the requests of
// clients and the responses of origins, byte by byte as on the wire. It contains only
// tests and the rows in testdata.
//
// # Rows
//
// A row is a paragraph of a file in testdata. Its first line is its name. Each other
// line is a key and its value, separated by spaces. Lines that begin with "#" are
// comments.
//
//	length and chunks
//	send   POST /a HTTP/1.1¶Host: h.test¶Content-Length: 3¶Transfer-Encoding: chunked¶¶0¶¶
//	want   400 closed
//	rfc    9112 6.1
//	why    net/http drops the length and answers; nginx refuses
//
// In bytes, ¶ is CR LF, a backslash escapes as in Go (\r, \n, \t, \\, \x00), and
// {N*text} is the text N times. "each" lists texts, separated by two spaces: the row is
// repeated for each of them, with {} replaced by the text.
//
// # Requests (requests-*.txt)
//
//   - send: what the client sends.
//   - want: the statuses of all responses in order, and whether the connection is
//     open or closed afterwards. 400|431 allows either status. HEAD:200 is a
//     response without a body. "none closed" is a close without a response.
//   - origin: one request that the origin may see, in order: "METHOD target", and
//     after each " | ": "body TEXT", "has Name: value", "no Name", "trailer
//     Name: value". The Host is h.test unless "has Host" says otherwise. Without
//     such a line the origin must see nothing. It must see all of them if the
//     last response has a status below 400.
//   - sees: the contents of one final response, in order, with the same conditions.
//   - end: the client closes its sending side after the bytes.
//   - warm: a target that is stored in advance; for the caching configuration only.
//   - only: default or caching, if the row applies to only one configuration.
//   - rfc: the section that decides. why: how weir differs from net/http (with
//     httputil.ReverseProxy) or nginx 1.22, and why. A row without it also holds for
//     those two, as far as their clients can see.
//
// Each row is sent whole with another request behind it, byte by byte, and line
// by line; plain and over TLS; to the default and to a caching configuration. The test
// for an open connection is another request on it. The test for a closed one is the end
// of the data read from it, and that the next request never reaches the origin.
//
// # Responses (answers-*.txt)
//
//   - ask: the client's request line; the default is "GET /a". A method with a
//     body sends one.
//   - send: the origin's response. With end the origin then closes its side, with reset
//     it resets the connection. With once it sends everything in one write: bytes after
//     the end of a response can be distinguished from the next response only if they
//     have already arrived.
//   - sees: the status, "broken" if the body is cut off, and the conditions above.
//     Alternatives are separated by "|". 103 before 200 is "103 200".
//   - stored: yes, no, or may: whether the caching configuration serves it to
//     other clients.
//   - reuse: no if nothing more may be sent on the connection to the origin.
//   - rfc, why: as above.
//
// # HTTP/2 (h2-*.txt)
//
//   - send: one frame per line. HEADERS and CONTINUATION with name=value fields,
//     DATA with bytes, RST, and so on: see h2_frames_test.go. "end" as a word ends
//     the stream, "more" leaves the header block open.
//   - want: statuses, "reset" for RST_STREAM, "goaway" for the end of the
//     connection; alternatives are separated by "|".
//   - origin, only, rfc, why: as above.
package rawcorpus
