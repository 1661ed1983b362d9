package weirhttp

import (
	"net/http"
	"time"

	"github.com/weir-go/weir/internal/responses"
)

// maxSteps is how many instants of a stream are kept. It is even.
const maxSteps = 512

// firstGap is how close the instants of a stream may be.
const firstGap = time.Millisecond

// A pace records when the parts of a stream arrived. Parts that arrive within a gap
// count as one, which arrived when the first of them did. With too many instants the
// gap doubles.
type pace struct {
	began time.Time
	gap   time.Duration
	steps []responses.Step
}

// note records that the first n bytes have arrived by now.
func (p *pace) note(n int64, now time.Time) {
	at := max(now.Sub(p.began), 0)
	if p.steps == nil {
		p.gap, p.began, at = firstGap, now, 0
	}
	if last := len(p.steps) - 1; last >= 0 && at-p.steps[last].At < p.gap {
		p.steps[last].Until = n
		return
	}
	if len(p.steps) == maxSteps {
		for i := range maxSteps / 2 {
			p.steps[i] = responses.Step{At: p.steps[2*i].At, Until: p.steps[2*i+1].Until}
		}
		p.steps = p.steps[:maxSteps/2]
		p.gap *= 2
	}
	p.steps = append(p.steps, responses.Step{At: at, Until: n})
}

// paces reports whether s is replayed at its recorded pace.
func (h *Handler) paces(s *responses.Stored) bool {
	return len(s.Pace) > 1 && h.o.Events.Replay == ReplayPaced
}

// replay writes the status and the body of s at the recorded pace.
func (h *Handler) replay(w http.ResponseWriter, r *http.Request, s *responses.Stored) {
	w.WriteHeader(s.Status)
	flusher := http.NewResponseController(w)
	began, sent, hurry := time.Now(), int64(0), false
	timer := time.NewTimer(0)
	defer timer.Stop()
	for _, step := range s.Pace {
		if left := step.At - time.Since(began); left > 0 && !hurry {
			timer.Reset(left)
			select {
			case <-timer.C:
			case <-h.refreshes.Done(): // we drain, or close
				hurry = true
			case <-r.Context().Done():
				Break(w, r)
			}
		}
		if _, err := w.Write(s.Body[sent:step.Until]); err != nil {
			return // the client has left, and the server knows
		}
		_ = flusher.Flush() // without a Flush, it is sent at the end
		sent = step.Until
	}
	_, _ = w.Write(s.Body[sent:])
}
