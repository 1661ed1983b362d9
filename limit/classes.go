package limit

// classCount is how many classes of callers a queue tells apart: all but
// Background, which never queues.
const classCount = 3

// classes is a queue for callers of several classes. A caller of a higher class
// is served first; within a class it is first come, first served, and the
// other way round under overload: then the oldest have waited for so long that
// their callers are about to give up, and serving them in turn would make
// everybody wait as long (adaptive LIFO: Maurer, "Fail at Scale", ACM Queue
// 13(8), 2015).
//
// The zero classes is empty and ready to use. It has no lock of its own.
type classes struct {
	of    [classCount]queue // lowest first
	n     int               // waiters
	units int               // that they want, together
	turn  uint64            // the last one given out
}

func (q *classes) push(w *waiter, class int) {
	q.turn++
	w.class, w.since = class, [classCount]uint64{}
	for i := range class + 1 {
		w.since[i] = q.turn
	}
	q.of[class].push(w)
	q.n++
	q.units += w.units
}

// move puts w, which is in the queue, into another class. Upwards it comes to the
// end. Downwards it gets back the turn that it had there, or would have had: who
// came for a while and has left must not cost the others theirs.
func (q *classes) move(w *waiter, class int) {
	if class == w.class {
		return
	}
	q.of[w.class].remove(w)
	if class > w.class {
		q.turn++
		for i := w.class + 1; i <= class; i++ {
			w.since[i] = q.turn
		}
		w.class = class
		q.of[class].push(w)
		return
	}
	w.class = class
	q.of[class].insert(w, func(v *waiter) bool { return v.since[class] < w.since[class] })
}

// next returns the waiter whose turn it is, nil if there is none.
func (q *classes) next(newestFirst bool) *waiter {
	for i := classCount - 1; i >= 0; i-- {
		c := &q.of[i]
		w := c.head
		if newestFirst {
			w = c.tail
		}
		if w != nil {
			return w
		}
	}
	return nil
}

// remove takes w off from wherever it stands, and reports whether it was there.
func (q *classes) remove(w *waiter) bool {
	if !q.of[w.class].remove(w) {
		return false
	}
	q.n--
	q.units -= w.units
	return true
}

// ahead returns how many units would be served before a newcomer of class.
func (q *classes) ahead(class int, newestFirst bool) int {
	n := 0
	for i := class + 1; i < classCount; i++ {
		n += q.of[i].units
	}
	if !newestFirst {
		n += q.of[class].units
	}
	return n
}

// before returns how many units are to be served before w, which is in the queue,
// if nobody else comes. It walks through those of w's class.
func (q *classes) before(w *waiter, newestFirst bool) int {
	n := q.ahead(w.class, true)
	if newestFirst {
		for v := w.next; v != nil; v = v.next {
			n += v.units
		}
		return n
	}
	return n + q.of[w.class].before(w)
}

// last returns the waiter that would be served after a newcomer of class and
// after all others, nil if that is the newcomer itself.
func (q *classes) last(class int, newestFirst bool) *waiter {
	for i := 0; i <= class; i++ {
		c := &q.of[i]
		switch {
		case c.n == 0:
		case newestFirst:
			return c.head
		case i < class:
			return c.tail
		}
	}
	return nil
}
