package simulate

import (
	"container/heap"
	"time"
)

// queueing is the server for the model Queueing. The keys of its heap are nanoseconds
// of progress.
type queueing struct {
	src *Source
	progress
	queue []*job // head first; jobs that left are still in it, with state outside
	wait  int    // number of jobs in queue that have not left
	work  jobHeap
	hung  int
}

func (q *queueing) inside() int { return q.wait + len(q.work) + q.hung }

func (q *queueing) enter(now time.Duration, j *job) {
	j.state = waiting
	q.queue = append(q.queue, j)
	q.wait++
	q.step(now)
}

// step assigns waiting jobs to free servers.
func (q *queueing) step(now time.Duration) {
	for q.wait > 0 && len(q.work)+q.hung < q.src.CapacityAt(now) {
		j := q.queue[0]
		q.queue[0] = nil
		q.queue = q.queue[1:]
		if j.state != waiting {
			continue
		}
		q.wait--
		if q.src.hung(now) {
			j.state = hanging
			q.hung++
			continue
		}
		j.state, j.key = working, float64(q.made(now)+q.src.demand(j, now))
		heap.Push(&q.work, j)
	}
}

func (q *queueing) leave(now time.Duration, j *job) {
	if q.src.Unaware && j.state != hanging {
		j.orphan = true
		return
	}
	switch j.state {
	case waiting:
		q.wait--
	case hanging:
		q.hung--
	case working:
		if q.src.KeepServer {
			j.orphan = true
			return
		}
		heap.Remove(&q.work, j.pos)
	}
	j.state = outside
	q.step(now)
}

func (q *queueing) next(now time.Duration) (time.Duration, bool) {
	if len(q.work) == 0 {
		return 0, false
	}
	return max(now, q.reached(time.Duration(q.work[0].key))), true
}

func (q *queueing) finish(now time.Duration) *job {
	j := heap.Pop(&q.work).(*job)
	if q.src.hung(now) && !j.orphan {
		j.state = hanging
		q.hung++
		return nil
	}
	j.state = outside
	q.step(now)
	return j
}
