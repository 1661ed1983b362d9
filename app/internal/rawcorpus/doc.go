// Package rawcorpus tests weir proxy with raw bytes over real sockets: what clients send
// and what origins respond, byte by byte as on the wire. It has no code, only tests and the
// rows in testdata.
//
// # Rows
//
// A row is a paragraph of a file in testdata. Its first line is its name. Each
// other line is a key and its value, separated by blanks. Lines that begin with
// "#" are comments.
//
//	length and chunks
//	send   POST /a HTTP/1.1¶Host: h.test¶Content-Length: 3¶Transfer-Encoding: chunked¶¶0¶¶
//	want   400 closed
//	rfc    9112 6.1
//	why    net/http drops the length and answers; nginx refuses
//
// In bytes, ¶ is CR LF, a backslash escapes as in Go (\r, \n, \t, \\, \x00), and
// {N*text} is the text N times. "each" lists texts, parted by two blanks: there is
// a row for each, in which it stands for {}.
//
// # Requests (requests-*.txt)
//
//   - send: what the client sends.
//   - want: the statuses of all answers in their order, and what becomes of the
//     connection, open or closed. 400|431 allows either status. HEAD:200 is an
//     answer without a body. "none closed" is a close without an answer.
//   - origin: one request that the origin may see, in order: "METHOD target", and
//     after each " | ": "body TEXT", "has Name: value", "no Name", "trailer
//     Name: value". The Host is h.test unless "has Host" says otherwise. Without
//     such a line the origin must see nothing. It must see all of them if the
//     last answer is below 400.
//   - sees: what one final answer has, in order, with the same conditions.
//   - end: the client closes its sending side after the bytes.
//   - warm: a target that is stored before, so only for the caching configuration.
//   - only: default or caching, the one configuration that the row is for.
//   - rfc: the section that decides. why: in what weir differs from net/http (with
//     httputil.ReverseProxy) or nginx 1.22, and why. A row without it holds for them,
//     too, as far as their client sees.
//
// Each row is sent whole with another request behind it, byte by byte, and line
// by line; plain and over TLS; to the default and to a caching configuration. An
// open connection is proved by another request on it, a closed one by the end of
// what can be read from it, and by the next request never reaching the origin.
//
// # Answers (answers-*.txt)
//
//   - ask: the client's request line, "GET /a" if there is none. A method with a
//     body sends one.
//   - send: what the origin answers. end closes its side after it, reset breaks
//     the connection. once has all of it written at once: what comes after the end
//     of an answer can only be distinguished from the next response if it is there already.
//   - sees: the status, "broken" if the body is cut off, and the conditions above.
//     Alternatives are separated by "|". 103 before 200 is "103 200".
//   - stored: yes, no, or may: whether the caching configuration gives it to
//     somebody else.
//   - reuse: no if nothing more may be sent on the connection to the origin.
//   - rfc, why: as above.
//
// # HTTP/2 (h2-*.txt)
//
//   - send: one frame a line. HEADERS and CONTINUATION with name=value fields,
//     DATA with bytes, RST, and so on: see frames_test.go. "end" as a word ends
//     the stream, "more" leaves the header block open.
//   - want: statuses, "reset" for RST_STREAM, "goaway" for the end of the
//     connection; alternatives are separated by "|".
//   - origin, only, rfc, why: as above.
package rawcorpus
