package jobs

import (
	"errors"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weir-go/weir/jobs/internal/journal"
	"github.com/weir-go/weir/limit"
)

// start starts the job of a first delivery if nothing needs to be waited for or read
// before that, which is the usual case; otherwise it returns false. It writes the same
// running marker as take, but does not wait for it: the markers of all jobs of a request
// are on their way at once. The attempt begins when its own marker is stored. A marker
// that is refused is nothing new for take's loop: the job has changed.
//
// The caller's slot is freed when the job no longer needs it.
func (w *Worker) start(m jetstream.Msg) bool {
	if w.o.Limiter != nil || w.stopping.Err() != nil || deliveries(m) != 1 {
		return false
	}
	work, err := w.queue.store.journal.Delivered(m)
	if err != nil {
		return false
	}
	d := &delivery{w: w, m: m, work: work}
	if d.life, _, err = read(journal.View{Work: work}); err != nil {
		return false
	}
	if d.Version > w.queue.o.Version || d.wait() > 0 || d.unfit() != nil || len(d.locks()) > 0 {
		return false
	}
	a := d.newAttempt()
	w.pulling.Add(1)
	w.queue.store.journal.Start(w.hurry, a.firstMarker(), func(seq uint64, err error) {
		go func() {
			defer w.pulling.Done()
			defer w.free(1)
			switch {
			case err == nil:
				a.marked(seq)
				a.run(limit.Permit{})
			case errors.Is(err, journal.ErrStale):
				d.proceed(d.reread())
			default:
				d.proceed(nil, err)
			}
		}()
	})
	return true
}
