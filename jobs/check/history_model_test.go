package jobs_test

import (
	"fmt"

	"github.com/anishathalye/porcupine"

	"github.com/weir-go/weir/jobs"
)

// # One key, as a sequence
//
// A key has no job, or one life of a job. The table lists the operations on a key,
// each of which happens at one instant between its call and its return. For each
// result, it gives the states in which the result is possible:
//
//	Submit(in)    began     no job, failed, dead or canceled  -> queued with in; with
//	                        Restart also done
//	              joined    queued, running, retrying, done with the same input; with
//	                        Restart not done
//	              conflict  as joined, with another input
//	start(f, n)             queued, retrying                   -> running by f; n is one
//	                        more than the attempts of this life, f is above all
//	                        fences before
//	              also from running, where the attempt before was cut off
//	end(f)        succeeded running by f                       -> done with f's result
//	              retried   running by f                       -> retrying
//	              ended     running by f                       -> failed or dead
//	              dropped   anything but running by f
//	Cancel        nil       queued, running, retrying          -> canceled
//	                        canceled
//	              finished  done, failed, dead
//	              not found no job
//	Retry         nil       failed, dead, canceled            -> queued, no attempt
//	              conflict  queued, running, retrying, done
//	              not found no job
//	Drop          nil       over                               -> no job
//	              conflict  queued, running, retrying
//	              not found no job
//	Status        what it is; not found: no job
//
// An operation that returned unavailable, or did not return, may have happened at any
// time after its call, or not at all. The call of a start is the beginning of the
// history, because it is only known that its worker wrote the marker before the
// handler ran.

// A lifeOp is one call.
type lifeOp struct {
	key     string
	call    string // submit, start, end, cancel, retry, drop, status
	in      string // for a submit
	restart bool
	fence   uint64 // for a start and an end
	attempt int    // for a start
	slow    bool   // the call may have repeated its write
	cut     bool   // for a start: the previous attempt may have been cut off
}

// A lifeOut is the result of a call.
type lifeOut struct {
	answer  string
	state   jobs.State // for a status, and for an end that ended the job
	attempt int        // for a status
	fence   uint64     // for a status
}

// A lifeState is the state of a key at an instant.
type lifeState struct {
	state   jobs.State // zero: no job
	in      string
	attempt int
	fence   uint64 // of the last attempt of this life; zero: none
	highest uint64 // the highest fence of all lives
}

// anyInput is the input of a start whose handler was not seen.
const anyInput = "?"

// The possible results.
const (
	ok          = "ok"
	began       = "began"
	joined      = "joined"
	conflict    = "conflict"
	finished    = "finished"
	notFound    = "not found"
	unavailable = "unavailable"
	dropped     = "dropped"
)

func (s lifeState) over() bool    { return s.state.Terminal() }
func (s lifeState) pending() bool { return s.state != 0 && !s.state.Terminal() }

// queued returns the state of a new life.
func (s lifeState) queued(in string) lifeState {
	return lifeState{state: jobs.StateQueued, in: in, highest: s.highest}
}

func (s lifeState) in_(state jobs.State) lifeState { s.state = state; return s }

// step returns the states that may follow.
func (s lifeState) step(op lifeOp, out lifeOut) []any {
	answers := []string{out.answer}
	var next []any
	if out.answer == unavailable {
		next = append(next, s) // the operation did not happen
		answers = []string{ok}
		if effect := effects[op.call]; effect != "" {
			answers = []string{effect}
		}
	}
	for _, answer := range answers {
		out.answer = answer
		if after, can := s.apply(op, out); can {
			next = append(next, after)
		}
	}
	return next
}

// apply implements the table above.
func (s lifeState) apply(op lifeOp, out lifeOut) (lifeState, bool) {
	switch op.call {
	case "submit":
		return s.submit(op, out.answer)
	case "start":
		can := s.state == jobs.StateQueued || s.state == jobs.StateRetrying || op.cut && s.state == jobs.StateRunning
		after := lifeState{state: jobs.StateRunning, in: s.in, attempt: op.attempt, fence: op.fence, highest: op.fence}
		return after, can && op.fence > s.highest && (op.in == s.in || op.in == anyInput) && (op.attempt == s.attempt+1 || op.cut && op.attempt > s.attempt)
	case "end":
		ours := s.state == jobs.StateRunning && s.fence == op.fence
		if out.answer == dropped {
			return s, !ours
		}
		return s.in_(out.state), ours
	case "cancel":
		switch out.answer {
		case ok:
			return s.in_(jobs.StateCanceled), s.pending() || s.state == jobs.StateCanceled
		case finished:
			return s, s.over() && s.state != jobs.StateCanceled
		}
	case "retry":
		switch out.answer {
		case ok:
			return s.queued(s.in), s.state > jobs.StateDone
		case conflict:
			return s, s.state != 0 && s.state <= jobs.StateDone
		}
	case "drop":
		switch out.answer {
		case ok:
			return lifeState{highest: s.highest}, s.over()
		case conflict:
			return s, s.pending()
		}
	case "status":
		if out.answer == ok {
			return s, s.state == out.state && s.attempt == out.attempt && s.fence == out.fence
		}
	}
	return s, out.answer == notFound && s.state == 0
}

func (s lifeState) submit(op lifeOp, answer string) (lifeState, bool) {
	free := s.state == 0 || s.state > jobs.StateDone || op.restart && s.state == jobs.StateDone
	switch answer {
	case began:
		return s.queued(op.in), free
	case joined:
		return s, !free && s.in == op.in
	case conflict:
		return s, !free && s.in != op.in
	}
	return s, false
}

// effects maps each call to the result that means that it changed the job.
var effects = map[string]string{"submit": began, "cancel": ok, "retry": ok, "drop": ok}

// lifeModel is the model of all keys. A slow operation got no acknowledgement at
// first, and repeated its write. The first write may have had its effect, in which
// case the result describes what the second one found: for example, a Submit reports
// that it joined the life that it began itself. Others may also have changed the job
// since. If what the first write began is over and was replaced, the second write can
// have the effect once more (see addLocked).
func lifeModel() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Partition: func(history []porcupine.Operation) (parts [][]porcupine.Operation) {
			at := map[string]int{}
			for _, op := range history {
				key := op.Input.(lifeOp).key
				i, seen := at[key]
				if !seen {
					i = len(parts)
					at[key] = i
					parts = append(parts, nil)
				}
				parts[i] = append(parts[i], op)
			}
			return parts
		},
		Init: func() []any { return []any{lifeState{}} },
		Step: func(state, input, output any) []any {
			s, op, out := state.(lifeState), input.(lifeOp), output.(lifeOut)
			next := s.step(op, out)
			if effect := effects[op.call]; op.slow && effect != "" && out.answer != effect {
				out.answer = effect
				next = append(next, s.step(op, out)...)
			}
			return next
		},
		DescribeOperation: func(input, output any) string {
			return fmt.Sprintf("%+v -> %+v", input, output)
		},
	}
	return m.ToModel()
}
