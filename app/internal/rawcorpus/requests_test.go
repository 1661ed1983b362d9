package rawcorpus

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A way is a way to send a row to weir.
type way struct {
	configuration string
	secure        bool
	pieces        string
}

func (w way) String() string {
	scheme := "plain"
	if w.secure {
		scheme = "TLS"
	}
	return w.configuration + ", " + scheme + ", " + w.pieces
}

var ways = []way{
	{"default", false, "whole"},
	{"default", false, "bytes"},
	{"default", true, "lines"},
	{"caching", false, "lines"},
	{"caching", true, "whole"},
	{"caching", true, "bytes"},
}

const last = "GET /last HTTP/1.1\r\nHost: h.test\r\n\r\n"

// H18, H10, H17: for each request of a client over HTTP/1, the rows say what the client
// gets, what the origin sees, and whether the connection stays open.
func TestH18_RawRequests(t *testing.T) {
	all := rows(t, "requests-*.txt", requestKeys...)
	if len(all) < 300 {
		t.Errorf("%d rows; want 300", len(all))
	}
	spread(t, all, func(t *testing.T, s *stand, r row) {
		for _, w := range ways {
			if w.configuration != s.configuration {
				continue
			}
			if fault := s.request(t, r, w); fault != "" {
				t.Errorf("%v (%v): %s\n\tRFC %s", r, w, fault, r.get("rfc"))
				return
			}
		}
	})
}

// A stand is a weir with an origin, for one row at a time: everything that the origin
// sees belongs to that row.
type stand struct {
	configuration string
	*weir
	origin *origin
	late   []string // what the origin can see of the previous row, which was abandoned
}

// spread runs do for each row with each configuration, on several stands concurrently.
func spread(t *testing.T, all []row, do func(*testing.T, *stand, row)) {
	t.Helper()
	const stands = 4
	for configuration := range configurations {
		jobs := make(chan row)
		t.Run(configuration, func(t *testing.T) {
			t.Parallel()
			var running sync.WaitGroup
			for range stands {
				o := newOrigin(t, scripted)
				s := &stand{
					configuration: configuration, origin: o,
					weir: start(t, configurations[configuration], "{name: o, servers: ['http://"+o.Addr().String()+"']}"),
				}
				running.Go(func() {
					for r := range jobs {
						do(t, s, r)
					}
				})
			}
			for _, r := range all {
				if only := r.get("only"); (only == "" || only == configuration) && (configuration == "caching" || !r.has("warm")) {
					jobs <- r
				}
			}
			close(jobs)
			running.Wait()
		})
	}
}

// scripted answers as the script says, and otherwise as usual does.
func scripted(o *origin, c *originConn, m message) bool {
	o.mu.Lock()
	r, ok := o.script[m.start]
	delete(o.script, m.start)
	o.mu.Unlock()
	if !ok {
		return usual(o, c, m)
	}
	var err error
	for _, p := range pieces[r.pieces](r.bytes) {
		if _, err = io.WriteString(c, p); err != nil {
			break
		}
	}
	if r.reset {
		reset(c.Conn)
	}
	return err == nil && !r.end && !r.reset
}

// request sends a row in one way, and returns what went wrong.
func (s *stand) request(t *testing.T, r row, w way) string {
	t.Helper()
	s.gateway.Cache().InvalidateAll(context.Background())
	if target := r.get("warm"); target != "" {
		if fault := s.get(t, target, w.secure); fault != "" {
			return "warming up: " + fault
		}
		s.origin.take()
	}
	want := strings.Fields(r.get("want"))
	if len(want) < 2 {
		t.Fatalf("%v: want %q", r, want)
	}
	open := want[len(want)-1] == "open"
	want = want[:len(want)-1]
	if want[0] == "none" {
		want = nil
	}
	bytes := raw(t, r.get("send"))
	c := listen(s.dial(t, w.secure), func(i int) bool { return headed(want, i) })
	defer c.Close()
	switch {
	case r.has("end"):
		c.send(bytes, w.pieces)
		c.closeWrite()
	case w.pieces == "whole":
		c.send(bytes+last, w.pieces)
	default:
		go c.send(bytes, w.pieces) // ends with the connection
	}
	answers, fault := c.expect(want)
	if n := len(answers); open && n > 0 && answers[n-1].start >= "400" && want[len(want)-1] < "400" {
		open = c.goesOn(w.pieces != "whole" && !r.has("end")) // the row allows a refusal, and then either outcome
		w.pieces = "refused"
	}
	switch {
	case fault != "" || w.pieces == "refused":
	case open:
		if w.pieces != "whole" {
			c.send(last, "whole")
		}
		_, fault = c.expect([]string{"200"})
	default:
		if w.pieces != "whole" && !r.has("end") {
			c.send(last, "whole")
		}
		if m, more, err := c.next(); more {
			fault = fmt.Sprintf("the connection stays open: %v, %v", m, err)
		}
	}
	c.Close()
	if !open && fault == "" {
		if fault = s.get(t, "/barrier", false); fault != "" {
			fault = "afterwards: " + fault
		}
	}
	seen, faults := s.origin.take()
	if fault != "" {
		_ = s.get(t, "/barrier", false) // the effects of this row must not affect the next one
		late, _ := s.origin.take()
		seen = append(seen, late...)
		return fmt.Sprintf("%s\n\tthe client got %v\n\tthe origin saw %v %q", fault, answers, seen, faults)
	}
	if len(faults) > 0 {
		return fmt.Sprintf("the origin cannot read %q", faults)
	}
	if fault := s.sawRight(t, r, seen, answers, open); fault != "" {
		return fmt.Sprintf("%s\n\tthe client got %v\n\tthe origin saw %v", fault, answers, seen)
	}
	return ""
}

// goesOn reports whether the connection answers another request. It sends that request
// if send is set.
func (c *client) goesOn(send bool) bool {
	if send {
		c.send(last, "whole")
	}
	m, ok, err := c.next()
	return ok && err == nil && m.start == "200"
}

// headed reports whether final response i of want has no body.
func headed(want []string, i int) bool {
	for _, w := range want {
		_, head := strings.CutPrefix(w, "HEAD:")
		if !head && w[0] == '1' && w != "101" {
			continue
		}
		if i == 0 {
			return head
		}
		i--
	}
	return false
}

// expect reads the wanted responses, and returns what is wrong.
func (c *client) expect(want []string) (got []message, fault string) {
	for _, w := range want {
		m, ok, err := c.next()
		switch allowed := strings.Split(strings.TrimPrefix(w, "HEAD:"), "|"); {
		case err != nil:
			return got, err.Error()
		case !ok && slices.Contains(allowed, "none"):
			return got, ""
		case !ok:
			return got, "the connection ends without " + w
		case m.broken && m.start < "400": // a refusal can be cut off by bytes sent after it
			return append(got, m), "truncated"
		case !slices.Contains(allowed, m.start):
			return append(got, m), "got " + m.start + "; want " + w
		}
		got = append(got, m)
	}
	return got, ""
}

// get requests a target on a separate connection.
func (s *stand) get(t *testing.T, target string, secure bool) string {
	t.Helper()
	c := listen(s.dial(t, secure), func(int) bool { return false })
	defer c.Close()
	c.send("GET "+target+" HTTP/1.1\r\nHost: h.test\r\n\r\n", "whole")
	_, fault := c.expect([]string{"200"})
	return fault
}

// sawRight returns how the requests at the origin, or the responses at the client,
// differ from the row.
func (s *stand) sawRight(t *testing.T, r row, seen, answers []message, open bool) string {
	t.Helper()
	late := s.late
	s.late = nil
	seen = slices.DeleteFunc(seen, func(m message) bool { return m.start == "GET /barrier" })
	if open {
		// HTTP/2 streams can overtake each other.
		i := slices.IndexFunc(seen, func(m message) bool { return m.start == "GET /last" })
		if i < 0 {
			return "the origin has not seen the request after it"
		}
		seen = slices.Delete(seen, i, i+1)
	}
	allowed := r.values["origin"]
	final := slices.DeleteFunc(slices.Clone(answers), func(m message) bool { return m.start[0] == '1' && m.start != "101" })
	passed := len(final) > 0 && final[len(final)-1].start < "400"
	if !passed {
		s.late = allowed
	}
	if len(seen) > len(allowed) && slices.ContainsFunc(late, func(c string) bool { return seen[0].unlike(t, c) == "" }) {
		seen = seen[1:] // the upstream connection was cut, and the origin reads the part that it has received
	}
	if len(seen) > len(allowed) || passed && len(seen) < len(allowed) {
		return fmt.Sprintf("the origin saw %d requests; want %d", len(seen), len(allowed))
	}
	for i, m := range seen {
		if fault := m.unlike(t, allowed[i]); fault != "" {
			return "the origin saw " + fault
		}
		if host := m.values("Host"); !strings.Contains(allowed[i], "| has Host:") && host[0] != "h.test" {
			return fmt.Sprintf("the origin saw the Host %q", host)
		}
	}
	for i, sees := range r.values["sees"] {
		if i >= len(final) {
			return fmt.Sprintf("%d responses; want %d", len(final), i+1)
		}
		if fault := final[i].unlike(t, sees); fault != "" {
			return "the client saw " + fault
		}
	}
	return ""
}
