package jobscheck

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weir-go/weir/jobs"
)

// judge checks all rules for all jobs. The rules are in doc.go.
func (h *history) judge() {
	for _, name := range slices.Sorted(maps.Keys(h.jobs)) {
		j := h.jobs[name]
		slices.SortStableFunc(j.attempts, func(a, b *attempt) int { return cmp.Compare(a.At, b.At) })
		h.judgeEnd(j)
		h.judgeResult(j)
		h.judgeCancel(j)
		h.judgeKey(j)
		h.judgeErrors(j)
		h.judgeFences(j)
		h.judgeStarts(j)
		h.judgeOverlaps(j)
	}
	h.judgeSerial()
	h.judgeParts()
}

// judgeEnd checks the rules lost, dead and failed.
func (h *history) judgeEnd(j *job) {
	accepted := slices.ContainsFunc(j.submits, func(s submit) bool { return s.err == "" })
	if !accepted {
		return
	}
	st := j.end.status
	switch {
	case errors.Is(j.end.err, jobs.ErrNotFound):
		h.fail("lost", j, "accepted, but missing")
	case j.end.err != nil:
		h.fail("lost", j, "cannot be read: %v", j.end.err)
	case !st.State.Terminal():
		h.fail("lost", j, "is %v; want it finished", st.State)
	case st.State == jobs.StateDead && st.Attempt < maxAttempts:
		h.fail("dead", j, "dead after %d attempts; want %d", st.Attempt, maxAttempts)
	case st.State == jobs.StateFailed && strings.Contains(st.Error, jobs.ErrExpired.Error()):
		if j.plan.o.Deadline == 0 {
			h.fail("failed", j, "expired without a deadline")
		}
		if len(j.attempts) > h.handedBack(j) && !isKey(j.name) {
			h.fail("failed", j, "expired, although it was started")
		}
	case st.State == jobs.StateFailed:
		if !slices.ContainsFunc(j.attempts, func(a *attempt) bool { return a.end != nil && ends(howOf(*a.end)) }) {
			h.fail("failed", j, "failed with %q, but no attempt had a permanent error", st.Error)
		}
	}
}

// judgeResult checks the rules result and kept.
func (h *history) judgeResult(j *job) {
	made := map[string]uint64{} // fences by result
	for _, a := range j.attempts {
		if a.end != nil && a.end.Result != "" {
			made[a.end.Result] = a.Fence
		}
	}
	told := map[string]bool{}
	for _, w := range j.waits {
		if w.Err == "" {
			told[w.Result] = true
		}
	}
	done := j.end.status.State == jobs.StateDone
	if done && j.end.err == nil {
		told[j.end.result] = true
		if f, ok := made[j.end.result]; ok && f != j.end.status.Fence {
			h.fail("result", j, "the result belongs to fence %d, but the Status has fence %d", f, j.end.status.Fence)
		}
	}
	for result := range told {
		if _, ok := made[result]; !ok {
			h.fail("result", j, "result %q belongs to no attempt", result)
		}
		if !done {
			h.fail("result", j, "a caller got result %q, but in the end the job is %v", result, j.end.status.State)
		}
	}
	if len(told) > 1 {
		h.fail("result", j, "%d results: %q", len(told), slices.Sorted(maps.Keys(told)))
	}
	if len(j.kept) > 1 || len(j.kept) == 1 && !done {
		h.fail("kept", j, "%d results were kept, and the job is %v; want at most one, and only for a job that is done", len(j.kept), j.end.status.State)
	}
}

// revived reports whether a Submit may have begun a new life between two instants.
func (j *job) revived(after, before int64) bool {
	return slices.ContainsFunc(j.submits, func(s submit) bool { return s.mayBegin() && s.to > after && s.from < before })
}

// judgeCancel checks the rules cancel and over.
func (h *history) judgeCancel(j *job) {
	st := j.end.status
	for _, c := range j.cancels {
		if c.Err != "" && c.Err != finished {
			continue
		}
		rule, what := "cancel", "the cancel"
		if c.Err == finished {
			rule, what = "over", "the report that it had finished"
		}
		last := !j.revived(c.From, never) // no life after the canceled one
		if last && j.end.err == nil && (c.Err == "") != (st.State == jobs.StateCanceled) {
			h.fail(rule, j, "after %s at %s, the job is %v in the end", what, h.since(c.At), st.State)
		}
		for _, a := range j.attempts {
			if j.revived(c.From, a.At) {
				continue
			}
			if a.At <= c.At {
				h.judgeTold(j, a, c)
				continue
			}
			// The attempt may have started before, but its process or ours was slow
			// to log it. For the last life, the Status decides that by its fence.
			began := !last || a.Fence <= st.Fence
			if slow := h.slowed(a.part, c.At, a.At); !began || a.At-c.At > int64(h.o.Slack)+slow {
				h.fail(rule, j, "attempt %d with fence %d starts at %s, after %s at %s", a.Attempt, a.Fence, h.since(a.At), what, h.since(c.At))
			}
		}
	}
}

// judgeTold checks the rule told. Attempt a was running when cancel c was
// acknowledged.
func (h *history) judgeTold(j *job, a *attempt, c event) {
	over := a.over()
	if over == never || a.part.killed != 0 && over >= a.part.killed || h.slowed(a.part, c.From, over) > 0 ||
		slices.ContainsFunc(h.harm, func(s span) bool { return s.meets(c.From, over) }) {
		return
	}
	if late := time.Duration(over - c.At); late > h.o.Lease/2+h.o.Slack {
		h.fail("told", j, "fence %d ran for %v after the cancel at %s; want it canceled by its next heartbeat at the latest", a.Fence, late, h.since(c.At))
	}
}

// judgeKey checks the rules key, joined and refused.
func (h *history) judgeKey(j *job) {
	if len(j.ids) > 1 {
		h.fail("key", j, "IDs %v; want one", j.ids)
	}
	var born *submit
	for i, s := range j.submits {
		switch {
		case s.begins():
			if born != nil && !h.canHaveEnded(j, born.from, s.to) {
				h.fail("key", j, "a new life at %s, but the life that began at %s was not over", h.since(s.to), h.since(born.to))
			}
			born = &j.submits[i]
		case s.joined && !slices.ContainsFunc(j.submits, func(o submit) bool { return o.mayBegin() && o.from < s.to }):
			h.fail("joined", j, "the Submit at %s joined a job that was not submitted before", h.since(s.to))
		}
	}
	refused := len(j.submits) > 0 && !slices.ContainsFunc(j.submits, func(s submit) bool { return s.err != full })
	if refused && len(j.attempts) > 0 {
		h.fail("refused", j, "refused, but it ran")
	}
}

// canHaveEnded reports whether a life that may have begun at from can have ended
// before to without being done.
func (h *history) canHaveEnded(j *job, from, to int64) bool {
	if d := j.plan.o.Deadline; d > 0 && to-from >= int64(d) {
		return true
	}
	for _, c := range j.cancels {
		if (c.Err == "" || c.Err == unknown) && c.From < to && c.At > from {
			return true
		}
	}
	return slices.ContainsFunc(j.attempts, func(a *attempt) bool {
		last := a.Attempt >= maxAttempts || a.end != nil && ends(howOf(*a.end))
		return last && a.At < to && a.over() > from
	})
}

// judgeErrors checks the rules level, error and waiter.
func (h *history) judgeErrors(j *job) {
	for _, s := range j.submits {
		if s.err == "" && s.level != h.o.Durability.String() {
			h.fail("level", j, "accepted with durability %q; want %v", s.level, h.o.Durability)
		}
		if s.err != "" && s.err != full && s.err != unknown {
			h.fail("error", j, "Submit = %s", s.err)
		}
	}
	for _, c := range j.cancels {
		if c.Err != "" && c.Err != finished && c.Err != unknown {
			h.fail("error", j, "Cancel = %s", c.Err)
		}
	}
	for _, w := range j.waits {
		switch w.Err {
		case "", unknown:
		case isCancel:
			if !slices.ContainsFunc(j.cancels, func(c event) bool { return (c.Err == "" || c.Err == unknown) && c.From < w.At }) {
				h.fail("waiter", j, "Wait reports a cancel, but there was none")
			}
		case isFailed, isDead:
			if st := j.end.status.State.String(); st != w.Err && !j.revived(w.From, never) {
				h.fail("waiter", j, "Wait reports that the job is %s, but in the end it is %s", w.Err, st)
			}
		default:
			h.fail("waiter", j, "Wait = %s", w.Err)
		}
	}
}
