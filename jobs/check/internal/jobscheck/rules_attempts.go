package jobscheck

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/weir-go/weir/jobs"
)

// judgeFences checks the rules fence and attempts.
func (h *history) judgeFences(j *job) {
	byFence := slices.Clone(j.attempts)
	slices.SortFunc(byFence, func(a, b *attempt) int { return cmp.Compare(a.Fence, b.Fence) })
	births, lives := 0, 0
	for _, s := range j.submits {
		if s.mayBegin() {
			births++
		}
	}
	for i, a := range byFence {
		if i == 0 {
			lives = 1
			continue
		}
		before := byFence[i-1]
		if before.Fence == a.Fence {
			h.fail("fence", j, "two attempts with fence %d", a.Fence)
		}
		switch {
		case a.Attempt > before.Attempt:
		case isKey(j.name):
			lives++
		default:
			h.fail("fence", j, "attempt %d has fence %d, but attempt %d has fence %d", before.Attempt, before.Fence, a.Attempt, a.Fence)
		}
	}
	// Attempts that were handed back have a number, too, but do not count. So the
	// number itself is not bounded.
	if n := len(byFence) - h.handedBack(j); n > maxAttempts*max(births, 1) {
		h.fail("attempts", j, "%d attempts in %d lives; want at most %d per life", n, births, maxAttempts)
	}
	if lives > births && births > 0 { // judgeStarts reports the case births == 0
		h.fail("attempts", j, "the attempts show %d lives, but only %d Submits can have begun one", lives, births)
	}
	if n := len(byFence); n > 0 && j.end.err == nil && j.end.status.Fence < byFence[n-1].Fence {
		// A new life has no fence until its first attempt begins.
		if j.end.status.Fence != 0 || !isKey(j.name) {
			h.fail("fence", j, "the Status has fence %d, but an attempt had fence %d", j.end.status.Fence, byFence[n-1].Fence)
		}
	}
}

// handedBack returns how many attempts of a job may not count, because their worker
// was stopped.
func (h *history) handedBack(j *job) (n int) {
	for _, a := range j.attempts {
		if a.part.asked {
			n++
		}
	}
	return n
}

// judgeStarts checks the rules delay and deadline, and that a job was submitted
// before it started.
func (h *history) judgeStarts(j *job) {
	for _, a := range j.attempts {
		if a.Attempt != 1 {
			continue
		}
		// The attempt belongs to one of the lives that may have begun before it.
		var first, last int64 = never, 0
		for _, s := range j.submits {
			if s.mayBegin() && s.from < a.At {
				first, last = min(first, s.from), max(last, s.to)
			}
		}
		if first == never {
			h.fail("joined", j, "an attempt starts without an earlier Submit")
			continue
		}
		if d := j.plan.o.Delay; a.At-first < int64(d) {
			h.fail("delay", j, "attempt 1 starts %v after the Submit; want at least %v", time.Duration(a.At-first), d)
		}
		if d := j.plan.o.Deadline; d > 0 && last < never {
			if late := a.At - last - int64(d) - h.slowed(a.part, last, a.At); late > int64(h.o.Slack) {
				h.fail("deadline", j, "attempt 1 starts %v after its deadline", time.Duration(late))
			}
		}
	}
}

// slowed returns the most time for which a process was stopped between two instants.
func (h *history) slowed(p *part, from, to int64) (sum int64) {
	for _, s := range p.pauses {
		if s.meets(from, to) {
			sum += min(s.to, to) - max(s.from, from)
		}
	}
	return sum
}

// judgeOverlaps checks the rules overlap and needless.
func (h *history) judgeOverlaps(j *job) {
	for i, a := range j.attempts {
		for _, b := range j.attempts[i+1:] {
			h.judgePair("overlap", j, a, b, len(j.cancels) == 0)
		}
	}
}

// judgeSerial checks the rule serial.
func (h *history) judgeSerial() {
	type turn struct {
		j *job
		a *attempt
	}
	turns := map[string][]turn{}
	for _, j := range h.jobs {
		for _, a := range j.attempts {
			if s := j.plan.o.Serial; s != "" {
				turns[s] = append(turns[s], turn{j, a})
			}
		}
	}
	for _, serial := range slices.Sorted(maps.Keys(turns)) {
		list := turns[serial]
		slices.SortFunc(list, func(a, b turn) int { return cmp.Compare(a.a.At, b.a.At) })
		for i, x := range list {
			for _, y := range list[i+1:] {
				if y.a.At-x.a.At > int64(10*h.o.Lease+time.Minute) {
					break
				}
				if x.j != y.j {
					h.judgePair("serial", x.j, x.a, y.a, len(x.j.cancels) == 0)
				}
			}
		}
	}
}

// judgePair checks attempt b, which started after a. If strict is true, b must not
// start unless a was disturbed.
func (h *history) judgePair(rule string, j *job, a, b *attempt, strict bool) {
	over := a.over()
	if b.At >= over || over == never {
		return
	}
	// A stopped process could not notice, so the time counts from when it continued.
	from, still := b.At, false
	for _, s := range a.part.pauses {
		if s.meets(a.At, over) {
			from, still = max(from, min(s.to, over)), true
		}
	}
	if beside := time.Duration(over - from); beside > h.o.Lease+h.o.Slack {
		h.fail(rule, j, "fence %d ran for %v beside fence %d, which began at %s; want at most the lease %v plus %v",
			a.Fence, beside, b.Fence, h.since(b.At), h.o.Lease, h.o.Slack)
	}
	disturbed := still || slices.ContainsFunc(h.harm, func(s span) bool { return s.meets(a.At, b.At) })
	// A killed process takes a moment to end; we treat it as gone only after that.
	if a.part.killed != 0 && b.At >= a.part.killed {
		disturbed = true
	}
	if strict && !disturbed && !a.part.asked {
		name := "needless"
		if rule == "serial" {
			name = rule
		}
		h.fail(name, j, "fence %d starts at %s beside fence %d, which was not disturbed", b.Fence, h.since(b.At), a.Fence)
	}
}

// judgeParts checks the rule died.
func (h *history) judgeParts() {
	for _, name := range slices.Sorted(maps.Keys(h.parts)) {
		p := h.parts[name]
		if p.dead != never && p.killed == 0 && (!p.asked || p.err != "") {
			h.fail("died", nil, "%s exited on its own: %s", name, p.err)
		}
	}
}

// restarts returns how long the jobs of killed workers waited for their next
// attempt, sorted.
func (h *history) restarts() []time.Duration {
	var all []time.Duration
	for _, j := range h.jobs {
		for i, a := range j.attempts {
			if a.end == nil && a.part.killed != 0 && i+1 < len(j.attempts) && j.attempts[i+1].Attempt > a.Attempt {
				all = append(all, time.Duration(j.attempts[i+1].At-a.part.killed))
			}
		}
	}
	slices.Sort(all)
	return all
}

// states counts jobs by their final states.
func (h *history) states() map[jobs.State]int {
	n := map[jobs.State]int{}
	for _, j := range h.jobs {
		if len(j.ids) > 0 {
			n[j.end.status.State]++
		}
	}
	return n
}
