// Package eventstream recognizes the events in a body of type text/event-stream, by the
// grammar of the HTML standard (sections 9.2.5 and 9.2.6). It only looks: the bytes of a
// stream are passed on as they came.
package eventstream
