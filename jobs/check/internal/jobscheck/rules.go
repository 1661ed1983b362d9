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

// judge holds all rules against all jobs. What they say is in doc.go.
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

// judgeEnd: lost, dead, failed.
func (h *history) judgeEnd(j *job) {
	accepted := slices.ContainsFunc(j.submits, func(s submit) bool { return s.err == "" })
	if !accepted {
		return
	}
	st := j.end.status
	switch {
	case errors.Is(j.end.err, jobs.ErrNotFound):
		h.fail("lost", j, "accepted, and not there")
	case j.end.err != nil:
		h.fail("lost", j, "cannot be read: %v", j.end.err)
	case !st.State.Terminal():
		h.fail("lost", j, "is %v; want it over", st.State)
	case st.State == jobs.StateDead && st.Attempt < maxAttempts:
		h.fail("dead", j, "dead after %d attempts; want %d", st.Attempt, maxAttempts)
	case st.State == jobs.StateFailed && strings.Contains(st.Error, jobs.ErrExpired.Error()):
		if j.plan.o.Deadline == 0 {
			h.fail("failed", j, "expired without a deadline")
		}
		if len(j.attempts) > h.handedBack(j) && !isKey(j.name) {
			h.fail("failed", j, "expired, and was started")
		}
	case st.State == jobs.StateFailed:
		if !slices.ContainsFunc(j.attempts, func(a *attempt) bool { return a.end != nil && ends(howOf(*a.end)) }) {
			h.fail("failed", j, "failed with %q, and no attempt had a permanent error", st.Error)
		}
	}
}

// judgeResult: result, kept.
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
			h.fail("result", j, "the result is fence %d's, the Status has fence %d", f, j.end.status.Fence)
		}
	}
	for result := range told {
		if _, ok := made[result]; !ok {
			h.fail("result", j, "result %q is no attempt's", result)
		}
		if !done {
			h.fail("result", j, "somebody got result %q; in the end the job is %v", result, j.end.status.State)
		}
	}
	if len(told) > 1 {
		h.fail("result", j, "%d results: %q", len(told), slices.Sorted(maps.Keys(told)))
	}
	if len(j.kept) > 1 || len(j.kept) == 1 && !done {
		h.fail("kept", j, "%d results were kept, and the job is %v; want at most one, of a job that is done", len(j.kept), j.end.status.State)
	}
}

// revived reports whether a Submit may have begun a new life after an instant, and
// before another.
func (j *job) revived(after, before int64) bool {
	return slices.ContainsFunc(j.submits, func(s submit) bool { return s.mayBegin() && s.to > after && s.from < before })
}

// judgeCancel: cancel, over.
func (h *history) judgeCancel(j *job) {
	st := j.end.status
	for _, c := range j.cancels {
		if c.Err != "" && c.Err != finished {
			continue
		}
		rule, what := "cancel", "the cancel"
		if c.Err == finished {
			rule, what = "over", "the news that it has finished"
		}
		last := !j.revived(c.From, never) // the life that was meant is the last
		if last && j.end.err == nil && (c.Err == "") != (st.State == jobs.StateCanceled) {
			h.fail(rule, j, "after %s at %s it is %v in the end", what, h.since(c.At), st.State)
		}
		for _, a := range j.attempts {
			if j.revived(c.From, a.At) {
				continue
			}
			if a.At <= c.At {
				h.judgeTold(j, a, c)
				continue
			}
			// It may have started before, and its process or ours was slow to say so. Of
			// the last life the Status tells, by its fence.
			began := !last || a.Fence <= st.Fence
			if slow := h.slowed(a.part, c.At, a.At); !began || a.At-c.At > int64(h.o.Slack)+slow {
				h.fail(rule, j, "attempt %d with fence %d starts at %s, after %s at %s", a.Attempt, a.Fence, h.since(a.At), what, h.since(c.At))
			}
		}
	}
}

// judgeTold: told. Attempt a ran when cancel c was acknowledged.
func (h *history) judgeTold(j *job, a *attempt, c event) {
	over := a.over()
	if over == never || a.part.killed != 0 && over >= a.part.killed || h.slowed(a.part, c.From, over) > 0 ||
		slices.ContainsFunc(h.harm, func(s span) bool { return s.meets(c.From, over) }) {
		return
	}
	if late := time.Duration(over - c.At); late > h.o.Lease/2+h.o.Slack {
		h.fail("told", j, "fence %d ran for %v after the cancel at %s; want it told by its heartbeat at the latest", a.Fence, late, h.since(c.At))
	}
}

// judgeKey: key, joined, refused.
func (h *history) judgeKey(j *job) {
	if len(j.ids) > 1 {
		h.fail("key", j, "IDs %v; want one", j.ids)
	}
	var born *submit
	for i, s := range j.submits {
		switch {
		case s.begins():
			if born != nil && !h.canHaveEnded(j, born.from, s.to) {
				h.fail("key", j, "a new life at %s, and that of %s was not over", h.since(s.to), h.since(born.to))
			}
			born = &j.submits[i]
		case s.joined && !slices.ContainsFunc(j.submits, func(o submit) bool { return o.mayBegin() && o.from < s.to }):
			h.fail("joined", j, "the Submit at %s joined, and nobody had submitted", h.since(s.to))
		}
	}
	refused := len(j.submits) > 0 && !slices.ContainsFunc(j.submits, func(s submit) bool { return s.err != full })
	if refused && len(j.attempts) > 0 {
		h.fail("refused", j, "refused, and run")
	}
}

// canHaveEnded reports whether a life that may have begun at from can have ended,
// without being done, before to.
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

// judgeErrors: waiter, error.
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
				h.fail("waiter", j, "Wait says that it was canceled, and nobody did")
			}
		case isFailed, isDead:
			if st := j.end.status.State.String(); st != w.Err && !j.revived(w.From, never) {
				h.fail("waiter", j, "Wait says that it is %s, and in the end it is %s", w.Err, st)
			}
		default:
			h.fail("waiter", j, "Wait = %s", w.Err)
		}
	}
}
