package jobscheck

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// A history is what happened, grouped by job.
type history struct {
	o         Options
	events    []event
	jobs      map[string]*job  // by name
	parts     map[string]*part // keyed by process and life
	harm      []span           // server faults, until the servers are surely back
	beginning int64
	broken    []Violation
}

// A span is the time between two instants, in ns.
type span struct{ from, to int64 }

func (s span) meets(from, to int64) bool { return s.from < to && from < s.to }

// A part is one life of a process.
type part struct {
	pauses []span
	dead   int64 // when it exited; the end of time if it did not
	killed int64 // when it was killed; zero if it was not
	asked  bool  // told to stop gracefully
	err    string
}

// A job is everything that happened under one name.
type job struct {
	name     string
	ids      []string
	plan     plan
	events   []event
	submits  []submit
	cancels  []event
	attempts []*attempt // in order of their starts
	waits    []event
	kept     []event
	end      final
}

// A submit is a call of Submit, which may have begun a life.
type submit struct {
	from, to int64 // to is the end of time if the call did not return
	err      string
	joined   bool
	level    string // the durability
}

// begins reports whether the submit certainly began a life; mayBegin, whether it may
// have.
//
// A slow submit may have repeated its write, and so may have joined the life that its
// first write began.
func (s submit) begins() bool { return s.err == "" && !s.joined }
func (s submit) mayBegin() bool {
	return s.begins() || s.err == unknown || s.joined && s.to-s.from > int64(opTimeout/4)
}

// An attempt is what the log says about one attempt.
type attempt struct {
	event        // its start
	end   *event // nil: its process died before it ended
	part  *part
}

const never = math.MaxInt64

// over returns the latest instant at which the attempt may still have been running.
func (a *attempt) over() int64 {
	if a.end != nil {
		return a.end.At
	}
	return a.part.dead
}

func newHistory(o Options, events []event, ends map[string]final) *history {
	h := &history{o: o, events: events, jobs: map[string]*job{}, parts: map[string]*part{}}
	if len(events) > 0 {
		h.beginning = events[0].At
	}
	names := map[string]string{} // by ID
	for _, e := range events {
		if e.ID != "" && e.Name != "" {
			names[e.ID] = e.Name
		}
	}
	for _, e := range events {
		if slices.Contains([]what{killed, paused, continued, asked, gone, up}, e.What) {
			h.addFault(e)
			continue
		}
		name := cmp.Or(e.Name, names[e.ID])
		if name != "" {
			h.job(name).add(h, e)
		}
	}
	for _, j := range h.jobs {
		if len(j.ids) > 0 {
			j.end = ends[j.ids[0]]
		}
		j.closeSubmits(h)
	}
	h.findHarm()
	return h
}

func (h *history) job(name string) *job {
	j := h.jobs[name]
	if j == nil {
		j = &job{name: name, plan: planOf(h.o.Seed, name, h.o.Lease)}
		h.jobs[name] = j
	}
	return j
}

func (h *history) part(name string) *part {
	p := h.parts[name]
	if p == nil {
		p = &part{dead: never}
		h.parts[name] = p
	}
	return p
}

func (h *history) addFault(e event) {
	p := h.part(e.Name)
	switch e.What {
	case killed:
		p.killed = e.At
	case paused:
		p.pauses = append(p.pauses, span{e.At, never})
	case continued:
		p.pauses[len(p.pauses)-1].to = e.At
	case asked:
		p.asked = true
	case gone:
		p.dead, p.err = e.At, e.Err
	}
}

func (j *job) add(h *history, e event) {
	j.events = append(j.events, e)
	if e.ID != "" && !slices.Contains(j.ids, e.ID) {
		j.ids = append(j.ids, e.ID)
	}
	switch e.What {
	case submitted:
		j.submits = append(j.submits, submit{from: e.From, to: e.At, err: e.Err, joined: e.Joined, level: e.Result})
	case canceled:
		j.cancels = append(j.cancels, e)
	case waited:
		j.waits = append(j.waits, e)
	case kept:
		j.kept = append(j.kept, e)
	case started:
		j.attempts = append(j.attempts, &attempt{event: e, part: h.part(e.By)})
	case ended:
		for _, a := range j.attempts {
			if a.Fence == e.Fence && a.By == e.By {
				a.end = &e
			}
		}
	}
}

// closeSubmits adds the submits and cancels whose process died before they returned.
// They may have taken effect, even later than that: a stopped server reads what was
// sent to it once it continues. Several loops of a process can use the same name. In
// that case the earlier call is treated as the one that did not return, which allows
// more.
func (j *job) closeSubmits(h *history) {
	type call struct {
		by   string
		what what
	}
	open := map[call][]event{}
	for _, e := range j.events {
		c := call{e.By, e.What}
		switch e.What {
		case submitting, canceling:
			open[c] = append(open[c], e)
			continue
		case submitted:
			c.what = submitting
		case canceled:
			c.what = canceling
		}
		if n := len(open[c]); n > 0 {
			open[c] = open[c][:n-1]
		}
	}
	for c, events := range open {
		for _, e := range events {
			last := h.arrived(h.part(e.By).dead)
			if c.what == submitting {
				j.submits = append(j.submits, submit{from: e.At, to: last, err: unknown})
			} else {
				e.From, e.At, e.Err = e.At, last, unknown
				j.cancels = append(j.cancels, e)
			}
		}
	}
	slices.SortFunc(j.submits, func(a, b submit) int { return cmp.Compare(a.to, b.to) })
}

// arrived returns the latest instant at which a server has read what was sent at the
// given instant.
func (h *history) arrived(sent int64) int64 {
	at := sent
	for name, p := range h.parts {
		if !h.isServer(nameOf(name)) {
			continue
		}
		for _, s := range p.pauses {
			if s.from <= sent && sent < s.to {
				at = max(at, s.to)
			}
		}
	}
	return at
}

// findHarm collects the spans in which a server may not have responded. Each span
// includes the time until all clients are back: they notice a failure through their
// pings, and a lease may have to pass.
func (h *history) findHarm() {
	back := int64(h.o.Lease + h.o.Slack + 2*opTimeout)
	for _, e := range h.events {
		if !h.isServer(nameOf(e.Name)) {
			continue
		}
		switch e.What {
		case killed, paused:
			h.harm = append(h.harm, span{e.At, never})
		case up, continued:
			if e.What == up && len(h.harm) == 0 {
				h.harm = append(h.harm, span{0, e.At + back}) // the first start
			} else if n := len(h.harm); h.harm[n-1].to == never {
				h.harm[n-1].to = e.At + back
			}
		}
	}
}

// isServer reports whether a process contains a server.
func (h *history) isServer(name string) bool {
	return strings.HasPrefix(name, roleServer) || h.o.Mode == Embedded && name == "submitter-1"
}

// nameOf returns the process of a life: "worker-2" for "worker-2.3".
func nameOf(by string) string {
	if i := strings.LastIndexByte(by, '.'); i >= 0 {
		return by[:i]
	}
	return by
}

func (h *history) since(at int64) string {
	return fmt.Sprintf("%.4fs", time.Duration(at-h.beginning).Seconds())
}

// fail records that a job breaks a rule.
func (h *history) fail(rule string, j *job, format string, args ...any) {
	v := Violation{Rule: rule, Text: fmt.Sprintf(format, args...)}
	if j != nil {
		v.Job = j.name
		v.IDs = j.ids
		for _, e := range j.events {
			v.History = append(v.History, e.line(h.beginning))
		}
		v.History = append(v.History, fmt.Sprintf("in the end: %v attempt %d fence %d result %q error %q (query: %v)",
			j.end.status.State, j.end.status.Attempt, j.end.status.Fence, j.end.result, j.end.status.Error, j.end.err))
		v.History = append(v.History, h.faultsAround(j)...)
	}
	h.broken = append(h.broken, v)
}

// faultsAround returns the faults, during a job's history, of the processes involved
// with the job and of servers.
func (h *history) faultsAround(j *job) []string {
	by := map[string]bool{}
	for _, e := range j.events {
		by[e.By] = true
	}
	from, to := j.events[0].At-int64(h.o.Lease), j.events[len(j.events)-1].At
	var lines []string
	for _, e := range h.events {
		concerns := by[e.Name] || h.isServer(nameOf(e.Name))
		if e.By == "checker" && concerns && from <= e.At && e.At <= to {
			lines = append(lines, fmt.Sprintf("%10.4fs %s: %s %s", time.Duration(e.At-h.beginning).Seconds(), e.Name, e.What, e.Err))
		}
	}
	return lines
}
