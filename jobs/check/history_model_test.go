package jobs_test

import (
	"fmt"

	"github.com/anishathalye/porcupine"

	"github.com/weir-go/weir/jobs"
)

// # One key, as a sequence
//
// A key has no job, or one life of a job. These are the operations on it, each at one
// instant between its call and its return, and what each may answer in which state:
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
// An operation that is unavailable, or was never answered, may have happened at any
// time after its call, or not at all. A start is called when the history begins: when
// its worker wrote the marker is not seen, only that it was before the handler ran.

// A lifeOp is a call.
type lifeOp struct {
	key     string
	call    string // submit, start, end, cancel, retry, drop, status
	in      string // of a submit
	restart bool
	fence   uint64 // of a start and an end
	attempt int    // of a start
	slow    bool   // it may have repeated its write
	cut     bool   // of a start: the one before may have been cut off
}

// A lifeOut is what it answered.
type lifeOut struct {
	answer  string
	state   jobs.State // of a status, and of an end that has ended the job
	attempt int        // of a status
	fence   uint64     // of a status
}

// A lifeState is a key at an instant.
type lifeState struct {
	state   jobs.State // zero: there is no job
	in      string
	attempt int
	fence   uint64 // of the last attempt of this life; zero: none
	highest uint64 // fence of all lives
}

// anyInput is that of a start whose handler was not seen.
const anyInput = "?"

// The answers.
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

// queued is a new life.
func (s lifeState) queued(in string) lifeState {
	return lifeState{state: jobs.StateQueued, in: in, highest: s.highest}
}

func (s lifeState) in_(state jobs.State) lifeState { s.state = state; return s }

// step returns the states that may follow.
func (s lifeState) step(op lifeOp, out lifeOut) []any {
	answers := []string{out.answer}
	var next []any
	if out.answer == unavailable {
		next = append(next, s) // it has not happened
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

// apply is the table above.
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

// effects is what a call answers that has changed the job.
var effects = map[string]string{"submit": began, "cancel": ok, "retry": ok, "drop": ok}

// lifeModel is the model of all keys. A slow operation had no answer at first, and has
// repeated its write: it may have had its effect, and then say what it found, which others
// have changed since: a Submit that it joined what it began itself, say. Or it has its
// effect once more, where what it had begun is over and replaced (see addLocked).
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
