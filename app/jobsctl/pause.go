package jobsctl

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/weir-go/weir/jobs"
)

// A QueueOutcome is the response to a request that pauses or resumes a queue.
type QueueOutcome struct {
	Queue string `json:"queue"`
	Did   string `json:"did"` // paused or resumed
}

// PauseOutcome returns the outcome of SetPaused.
func PauseOutcome(queue string, paused bool) QueueOutcome {
	if paused {
		return QueueOutcome{queue, "paused"}
	}
	return QueueOutcome{queue, "resumed"}
}

// SetPaused pauses or resumes a queue.
func (s storeSource) SetPaused(ctx context.Context, queue string, paused bool) error {
	err := s.Resume
	if paused {
		err = s.Pause
	}
	return noQueue(queue, err(ctx, queue))
}

// SetPaused pauses or resumes a queue.
func (r *remote) SetPaused(ctx context.Context, queue string, paused bool) error {
	verb := "/resume"
	if paused {
		verb = "/pause"
	}
	return noQueue(queue, r.ask(ctx, http.MethodPost, "/jobs/queues/"+url.PathEscape(queue)+verb, &QueueOutcome{}))
}

// noQueue makes a sentence of a queue that does not exist.
func noQueue(queue string, err error) error {
	if !isNotFound(err) {
		return err
	}
	return &problem{fmt.Sprintf(`no program has used a queue %q; "weir jobs queues" lists them`, queue), jobs.ErrNotFound}
}
