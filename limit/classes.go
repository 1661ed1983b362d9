package limit

// classCount is the number of classes in a queue: all but Background, which never
// queues.
const classCount = 3

// classes is a queue for callers of several classes. A caller of a higher class is
// served first. Within a class it is first come, first served, and the reverse in a class
// that is late: its oldest callers are then about to give up, and serving them in order
// would make all callers wait that long (adaptive LIFO: Maurer, "Fail at Scale", ACM Queue
// 13(8), 2015).
//
// The zero classes is empty and ready to use. It has no lock.
type classes struct {
	of    [classCount]queue // lowest first
	n     int               // waiters
	units int               // requested by all waiters
	turn  uint64            // the last one assigned
}

// late has true for each class whose newest callers are served first.
type late [classCount]bool

// any reports whether a class is late.
func (l late) any() bool { return l != late{} }

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

// move puts w, which is in the queue, into another class. A move up goes to the end
// of the class. A move down restores the turn that w had in that class, or would have
// had: a caller that joined and left must not cost the others their turn.
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

// next returns the waiter whose turn it is, or nil if the queue is empty.
func (q *classes) next(l late) *waiter {
	for i := classCount - 1; i >= 0; i-- {
		c := &q.of[i]
		w := c.head
		if l[i] {
			w = c.tail
		}
		if w != nil {
			return w
		}
	}
	return nil
}

// remove removes w from any position, and reports whether it was in the queue.
func (q *classes) remove(w *waiter) bool {
	if !q.of[w.class].remove(w) {
		return false
	}
	q.n--
	q.units -= w.units
	return true
}

// above returns how many queued units are of higher classes.
func (q *classes) above(class int) int {
	n := 0
	for i := class + 1; i < classCount; i++ {
		n += q.of[i].units
	}
	return n
}

// ahead returns how many queued units would be served before a newcomer of class.
func (q *classes) ahead(class int, l late) int {
	n := q.above(class)
	if !l[class] {
		n += q.of[class].units
	}
	return n
}

// before returns how many units will be served before w, which is in the queue, if
// no further caller arrives. It walks the waiters of w's class.
func (q *classes) before(w *waiter, l late) int {
	n := q.above(w.class)
	if l[w.class] {
		for v := w.next; v != nil; v = v.next {
			n += v.units
		}
		return n
	}
	return n + q.of[w.class].before(w)
}

// last returns the waiter that would be served last, or nil if a newcomer of class
// would be served after all of them.
func (q *classes) last(class int, l late) *waiter {
	for i := 0; i <= min(class, classCount-1); i++ {
		c := &q.of[i]
		switch {
		case c.n == 0:
		case l[i]:
			return c.head
		case i < class:
			return c.tail
		}
	}
	return nil
}
