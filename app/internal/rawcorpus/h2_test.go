package rawcorpus

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// H18, H17: for each request of a client over HTTP/2, the rows say what the client
// gets, what the origin sees, and whether the connection stays open.
func TestH18_RawHTTP2Requests(t *testing.T) {
	all := rows(t, "h2-*.txt", frameKeys...)
	spread(t, all, func(t *testing.T, s *stand, r row) {
		if fault := s.framed(t, r); fault != "" {
			t.Errorf("%v (%s): %s\n\tRFC %s", r, s.configuration, fault, r.get("rfc"))
		}
	})
}

// framed sends the frames of a row, and returns what went wrong.
func (s *stand) framed(t *testing.T, r row) (fault string) {
	t.Helper()
	defer func() {
		if fault != "" { // the effects of this row must not affect the next one
			_ = s.get(t, "/barrier", false)
			s.origin.take()
		}
	}()
	s.gateway.Cache().InvalidateAll(context.Background())
	if target := r.get("warm"); target != "" {
		if fault := s.get(t, target, true); fault != "" {
			return "warming up: " + fault
		}
		s.origin.take()
	}
	want := strings.Fields(r.get("want"))
	state := want[len(want)-1]
	want = want[:len(want)-1]
	h := newH2(s.dial(t, true, "h2"))
	defer h.Close()
	for _, line := range r.values["send"] {
		h.send(t, line)
	}
	var answers []message
	gone := false
	for i, w := range want {
		e := h.await(uint32(2*i + 1))
		if !slices.Contains(strings.Split(w, "|"), e.outcome) {
			h.Close()
			return fmt.Sprintf("stream %d: %s; want %s: %v", 2*i+1, e.outcome, w, e.message)
		}
		gone = gone || e.outcome == "goaway"
		answers = append(answers, e.message)
		if answers[i].start == "" {
			answers[i].start = "400" // for the checks below, a reset is a refusal
		}
	}
	h.send(t, "101:HEADERS end @last")
	e := h.await(101)
	open := e.outcome == "200"
	switch {
	case state == "open" && !gone && !open:
		fault = "the next request on the connection: " + e.outcome
	case state == "closed" && open:
		fault = "the connection stays open: " + e.outcome
	}
	h.Close()
	if fault == "" {
		fault = s.get(t, "/barrier", false)
	}
	seen, faults := s.origin.take()
	if fault != "" || len(faults) > 0 {
		return fmt.Sprintf("%s\n\tthe origin saw %v %q", fault, seen, faults)
	}
	if fault := s.sawRight(t, r, seen, answers, open); fault != "" {
		return fmt.Sprintf("%s\n\tthe client got %v\n\tthe origin saw %v", fault, answers, seen)
	}
	return ""
}
